// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later
import {Cases} from './engine.js';

export default async function ({Rlx, base, fetch, gpu, tell}, targets) {
  const cases = new Cases({Rlx, base, fetch, options: {gpu}});
  await cases.runAll(targets.map(target => target === 'any' ? undefined : target), tell, 5);
}
