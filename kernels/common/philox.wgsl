// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Philox 4x32-10: four random words for each counter and key.
// J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw: Parallel random numbers:
// as easy as 1, 2, 3. SC 2011.

// The upper half of a product.
fn multiply_high (a: u32, b: u32) -> u32 {
  let al = a & 0xffffu;
  let ah = a >> 16u;
  let bl = b & 0xffffu;
  let bh = b >> 16u;
  let middle = ah * bl + ((al * bl) >> 16u);
  let other = al * bh + (middle & 0xffffu);
  return ah * bh + (middle >> 16u) + (other >> 16u);
}

fn philox (counter: vec4<u32>, key: vec2<u32>) -> vec4<u32> {
  var c = counter;
  var k = key;
  for (var round = 0u; round < 10u; round++) {
    c = vec4<u32> (multiply_high (0xcd9e8d57u, c.z) ^ c.y ^ k.x,
                   0xcd9e8d57u * c.z,
                   multiply_high (0xd2511f53u, c.x) ^ c.w ^ k.y,
                   0xd2511f53u * c.x);
    k += vec2<u32> (0x9e3779b9u, 0xbb67ae85u);
  }
  return c;
}

// Words 4 block, 4 block + 1, … of the sequence that begins at the 128-bit counter p.counter0 … p.counter3. The key is
// a tensor of KEYS elements.
fn random_words (block: u32) -> vec4<u32> {
  var c = vec4<u32> (p.counter0 + block, p.counter1, p.counter2, p.counter3);
  var carry = c.x < block;
  c.y += select (0u, 1u, carry);
  carry = carry && c.y == 0u;
  c.z += select (0u, 1u, carry);
  carry = carry && c.z == 0u;
  c.w += select (0u, 1u, carry);
#if KEYS == 1
  let key = vec2<u32> (u32 (load_key (0u)), 0u);
#else
  let key = vec2<u32> (u32 (load_key (0u)), u32 (load_key (1u)));
#endif
  return philox (c, key);
}
