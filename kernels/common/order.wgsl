// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Elements as sort keys: u32 in the order of the numbers. Elements are raw, of BITS bits; KIND is 0 for unsigned
// integers (and bool), 1 for signed ones, 2 for floats. -0 and 0 have the same key. A NaN of either sign is the
// greatest. Nothing is compared as a float: hardware may flush subnormal numbers to zero.

#if BITS == 32
#define SIGN 2147483648
#define INFINITE 2139095040
#elif BITS == 16
#define SIGN 32768
#define INFINITE 31744
#else
#define SIGN 128
#endif

fn order_key (bits: u32) -> u32 {
#if KIND == 0
  return bits;
#elif KIND == 1
  return bits ^ $(SIGN)u;
#else
  let size = bits & $(SIGN - 1)u;
  let key = select ($(SIGN)u + size, $(SIGN)u - size, bits >= $(SIGN)u);
  return select (key, 0xffffffffu, size > $(INFINITE)u);
#endif
}
