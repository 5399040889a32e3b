// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

namespace Rlx {
	public sealed class Executable : GLib.Object {
		// vapigen would use int for the GIR's number of outputs.
		[CCode (array_length_type = "gsize")]
		public async Rlx.Tensor[] run_async ([CCode (array_length_cname = "n_inputs", array_length_pos = 1.5, array_length_type = "gsize")] Rlx.Tensor[] inputs, GLib.Cancellable? cancellable = null) throws GLib.Error;
		[CCode (array_length_type = "gsize")]
		public async Rlx.Tensor[] run_named_async ([CCode (array_length = false, array_null_terminated = true, type = "const char * const *")] string[] names, [CCode (array_length_cname = "n_inputs", array_length_pos = 2.5, array_length_type = "gsize")] Rlx.Tensor[] inputs, GLib.Cancellable? cancellable = null) throws GLib.Error;
	}
}
