/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "map.h"

G_BEGIN_DECLS

gboolean ref_map_stft            (MapCall *call,
                                  GError **error);
gboolean ref_map_mel_spectrogram (MapCall *call,
                                  GError **error);
gboolean ref_map_log_mel         (MapCall *call,
                                  GError **error);

G_END_DECLS
