// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

/**
 * f32: Float32Array. f16: Float16Array where there is one, else Uint16Array with the bits (see toHalf, fromHalf); runs take
 * both. i32: Int32Array. u32: Uint32Array. i8: Int8Array. u8 and bool: Uint8Array. i64: BigInt64Array, u64:
 * BigUint64Array, both of values that fit 32 bits. i4 and u4: Uint8Array, two elements to a byte.
 * Floats narrower than f16 are bits: bf16 in a Uint16Array, the others in a Uint8Array.
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
  /** Bytes of weights, and how many there are. */
  loaded: number;
  total: number;
  /** Kernels that are compiled, and how many there are so far. */
  compiled: number;
  kernels: number;
}

export interface LoadOptions {
  onprogress?: (progress: Progress) => void;
  /** Ends the load: the promise is rejected with the signal's reason. */
  signal?: AbortSignal;
  /** A GPUDevice to use; otherwise models share one that is opened for them. */
  device?: object;
  /** Instead of navigator.gpu. */
  gpu?: object;
  /** Takes this plan, or none. */
  target?: string;
  /** Instead of the global fetch. */
  fetch?: typeof fetch;
}

/** Every failure of a load or a run; the message names what is wrong. */
export class RlxError extends Error {}

export class Model {
  private constructor ();
  readonly inputs: readonly Port[];
  readonly outputs: readonly Port[];
  readonly parameters: readonly Port[];
  readonly states: readonly Port[];
  /** The target of the plan that was taken. */
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

  /** Runs the graph. The inputs are read before it returns; runs queue up in the order of the calls. */
  run (inputs?: Record<string, Values>, options?: {signal?: AbortSignal}): Promise<Record<string, Values>>;
  /** All are set, or none. */
  setParameters (values: Record<string, Values>): void;
  readState (name: string): Promise<Values>;
  writeState (name: string, value: Values): void;
  /** Gives states the values that they began with. */
  reset (): void;
  /** Runs the example that was stored at export and compares; states are reset. */
  check (): Promise<{inputs: Record<string, Values>; outputs: Record<string, Values>; error: number; tolerance: number; ok: boolean}>;
  /** Begins anew after the device was lost: parameters and states are as they were exported. */
  reload (options?: {signal?: AbortSignal}): Promise<void>;
  /** Gives the memory of the device back. */
  destroy (): void;
}

export const Rlx: {
  /** Loads the model of a folder, or of its plan.json. */
  load (url: string | URL, options?: LoadOptions): Promise<Model>;
  /** The bits of half floats for numbers. */
  toHalf (values: ArrayLike<number>): Uint16Array;
  /** The numbers that half floats stand for. */
  fromHalf (halves: ArrayLike<number>): Float32Array;
  readonly version: number;
};
export default Rlx;
