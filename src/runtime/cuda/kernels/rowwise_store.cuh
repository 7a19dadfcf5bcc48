/* SPDX-License-Identifier: Apache-2.0 */
/* Stores of packs at addresses of any alignment. */

/* row[column …] = v where 0 ≤ column < columns: 16 bytes at a time where the address allows it. */
__device__ inline void store_unaligned(element *row, int64 column, int64 columns, const float (&v)[PACK_ELEMENTS])
{
  if (offset_of(row + column) == 0) {
    store_pack(row, column, columns, v);
    return;
  }
#pragma unroll
  for (int j = 0; j < PACK_ELEMENTS; j++) {
    if (column + j >= 0 && column + j < columns)
      row[column + j] = from_float(v[j]);
  }
}
