/* Template: the two products of a step by vectors, included after flash_rows.h by a version, which also defines
 *   TILE            rows of a block in registers: TILE × PANEL accumulators, PANEL of B and one of A
 *   multiply_words(acc, a, b)   acc + a · b of words, a the same in all lanes
 *
 * C = factor · C + A B for a few rows of A and the columns of a panel of B, over `depth` words; factor NULL: C = A B. */

static inline __attribute__((always_inline)) void block(int rows, int vectors, const word *a, int64_t a_stride,
                                                        const word *b, int64_t depth, float *c, int64_t c_stride,
                                                        const float *factor)
{
  vector sums[TILE][PANEL];
#pragma GCC unroll 8
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
    for (int j = 0; j < vectors; j++) {
      sums[i][j] = vector_set(0);
      if (factor)
        sums[i][j] = vector_load(c + i * c_stride + j * LANES) * vector_set(factor[i]);
    }
#pragma GCC unroll 1
  for (int64_t w = 0; w < depth; w++) {
    vector columns[PANEL];
#pragma GCC unroll 4
    for (int j = 0; j < vectors; j++)
      columns[j] = vector_load((const float *)b + w * PANEL_LANES + j * LANES);
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++) {
      vector row = vector_set(a[i * a_stride + w]);
#pragma GCC unroll 4
      for (int j = 0; j < vectors; j++)
        sums[i][j] = multiply_words(sums[i][j], row, columns[j]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
    for (int j = 0; j < vectors; j++)
      vector_store(c + i * c_stride + j * LANES, sums[i][j]);
}

static inline __attribute__((always_inline)) void block_of(int vectors, int rows, const word *a, int64_t a_stride,
                                                           const word *b, int64_t depth, float *c, int64_t c_stride,
                                                           const float *factor)
{
  int row = 0;
  for (; row + TILE <= rows; row += TILE)
    block(TILE, vectors, a + row * a_stride, a_stride, b, depth, c + row * c_stride, c_stride,
          factor ? factor + row : NULL);
  for (; row + 2 <= rows; row += 2)
    block(2, vectors, a + row * a_stride, a_stride, b, depth, c + row * c_stride, c_stride,
          factor ? factor + row : NULL);
  if (row < rows)
    block(1, vectors, a + row * a_stride, a_stride, b, depth, c + row * c_stride, c_stride,
          factor ? factor + row : NULL);
}

/* All rows against `columns` columns, a multiple of LANES, of one panel that begins at b. */
static void multiply(int rows, int columns, const word *a, int64_t a_stride, const word *b, int64_t depth, float *c,
                     int64_t c_stride, const float *factor)
{
  if (columns == PANEL_LANES) {
    block_of(PANEL, rows, a, a_stride, b, depth, c, c_stride, factor);
    return;
  }
  for (; columns > 0; columns -= LANES, b += LANES, c += LANES)
    block_of(1, rows, a, a_stride, b, depth, c, c_stride, factor);
}

/* S = Q Kᵀ */
static void multiply_scores(const hr_flash_step *step)
{
  int columns;
  for (int key = 0; key < step->keys; key += columns) {
    int at = step->first_key + key, in_panel = at % PANEL_LANES;
    columns = (int)hr_min64(step->keys - key, PANEL_LANES - in_panel);
    multiply(step->rows, columns, step->q, step->depth,
             (const word *)step->k + at / PANEL_LANES * step->depth * PANEL_LANES + in_panel, step->depth,
             step->s + key, STEP, NULL);
  }
}

/* o = factor · o + P V */
static void multiply_values(const hr_flash_step *step)
{
  const word *p = PAIR == 1 ? (const word *)step->s : (const word *)step->p;
  for (int64_t d = 0; d < step->values; d += PANEL_LANES) {
    const word *panel = (const word *)step->v + d * (CHUNK / PAIR) + step->first_key / PAIR * PANEL_LANES;
    multiply(step->rows, (int)hr_min64(PANEL_LANES, step->values - d), p, STEP / PAIR, panel, step->keys / PAIR,
             step->o + d, step->values, step->factor);
  }
}

static void attend(const hr_flash_step *step, const hr_flash_step *next)
{
  (void)next;
  multiply_scores(step);
  softmax(step);
  multiply_values(step);
}
