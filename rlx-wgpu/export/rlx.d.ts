// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

/**
 * f32: Float32Array. f16: Float16Array if the browser has it, otherwise Uint16Array with the bits (see toHalf, fromHalf);
 * arguments can be either. i32: Int32Array. u32: Uint32Array. i16: Int16Array. u16: Uint16Array. i8: Int8Array. u8 and bool:
 * Uint8Array. i64: BigInt64Array and u64: BigUint64Array, whose values must fit into 32 bits. i4 and u4: Uint8Array with two
 * elements per byte. i2 and u2: Uint8Array with four elements per byte. Other types are stored as bits: bf16 in a
 * Uint16Array, and floats of 8 or 4 bits in a Uint8Array.
 */
export type Values = Float32Array | Uint16Array | Int32Array | Uint32Array | Int8Array | Uint8Array | BigInt64Array
  | BigUint64Array | ArrayBufferView;

export interface Port {
  readonly name: string;
  readonly dataType: 'f32' | 'f16' | 'i32' | 'u32' | 'i8' | 'u8' | 'bool' | 'i64' | 'u64' | 'i4' | 'u4' |
    'i16' | 'u16' | 'bf16' | 'f8e4m3fn' | 'f8e4m3fnuz' | 'f8e5m2' | 'f8e5m2fnuz' | 'f8e8m0' | 'f4e2m1' | 'i2' | 'u2';
  readonly shape: readonly number[];
}

export interface Progress {
  /** Bytes of weights fetched so far, and their total. */
  loaded: number;
  total: number;
  /** Kernels compiled so far, and the number known so far. */
  compiled: number;
  kernels: number;
}

export interface LoadOptions {
  onprogress?: (progress: Progress) => void;
  /** Aborts loading: the promise is rejected with the signal's reason. */
  signal?: AbortSignal;
  /** The GPUDevice to use; by default, models share one that is opened for them. */
  device?: object;
  /** Used instead of navigator.gpu. */
  gpu?: object;
  /** Only use the plan for this target. */
  target?: string;
  /** Used instead of the global fetch. */
  fetch?: typeof fetch;
}

/** A failure to load or run a model; the message says what is wrong. */
export class RlxError extends Error {}

export class Model {
  private constructor ();
  readonly inputs: readonly Port[];
  readonly outputs: readonly Port[];
  readonly parameters: readonly Port[];
  readonly states: readonly Port[];
  /** The target of the selected plan. */
  readonly target: string;
  /** The GPUDevice. */
  readonly device: object;
  /** The GPUAdapterInfo. */
  readonly adapterInfo: object;
  /** Why the device was lost, or null. */
  readonly lost: string | null;
  /** Bytes on the device. */
  readonly size: number;
  readonly hasCheck: boolean;

  /** Runs the graph. The inputs are read before it returns; runs are queued in the order of the calls. */
  run (inputs?: Record<string, Values>, options?: {signal?: AbortSignal}): Promise<Record<string, Values>>;
  /** Sets parameters by name: all of them, or none if any is wrong. */
  setParameters (values: Record<string, Values>): void;
  readState (name: string): Promise<Values>;
  writeState (name: string, value: Values): void;
  /** Resets states to their initial values. */
  reset (): void;
  /** Runs the example that was stored by the export and compares the results; resets states. */
  check (): Promise<{inputs: Record<string, Values>; outputs: Record<string, Values>; error: number; tolerance: number; ok: boolean}>;
  /** Starts again after the device was lost, with the parameters and states of the export. */
  reload (options?: {signal?: AbortSignal}): Promise<void>;
  /** Frees the memory of the device. */
  destroy (): void;
}

export const Rlx: {
  /** Loads the model in a folder, given by its URL or that of its plan.json. */
  load (url: string | URL, options?: LoadOptions): Promise<Model>;
  /** Converts numbers to the bits of half floats. */
  toHalf (values: ArrayLike<number>): Uint16Array;
  /** Converts half floats, or their bits in a Uint16Array, to numbers. */
  fromHalf (halves: ArrayLike<number>): Float32Array;
  readonly version: number;
};
export default Rlx;
