/* SPDX-License-Identifier: Apache-2.0 */
/* A program that calls attention and links libheadroom alone: a query that sees one key gets that key's V. */
#include <headroom/buffer.h>
#include <headroom/plan.h>
#include <headroom/version.h>
#include <stdio.h>

#define DIM 64

static int run_attention(const hr_plan *plan, void *workspace)
{
  _Alignas(16) float q[DIM], k[DIM], v[DIM], o[DIM];
  int wrong = 0;
  hr_error error;
  hr_attention_arguments arguments = hr_attention_arguments_default();
  for (int i = 0; i < DIM; i++) {
    q[i] = k[i] = (float)i / DIM;
    v[i] = (float)(i % 8);
    o[i] = -1;
  }
  arguments.q = q, arguments.k = k, arguments.v = v, arguments.o = o;
  if (hr_plan_run_attention(plan, &arguments, workspace, NULL, &error) != HR_OK) {
    fprintf(stderr, "%s\n", error.message);
    return 1;
  }
  for (int i = 0; i < DIM; i++)
    wrong += !(o[i] > v[i] - 1e-5f && o[i] < v[i] + 1e-5f);
  return wrong;
}

int main(void)
{
  hr_device *device = NULL;
  hr_plan *plan = NULL;
  hr_buffer *workspace = NULL;
  hr_error error;
  hr_attention attention = hr_attention_default();
  attention.batch = attention.q_len = attention.kv_len = 1;
  attention.q_heads = attention.k_heads = attention.v_heads = 1;
  attention.qk_dim = attention.v_dim = DIM;
  attention.dtype = HR_FP32;
  if (hr_device_open("cpu", 1, &device, &error) != HR_OK ||
      hr_plan_attention(device, &attention, NULL, &plan, &error) != HR_OK ||
      hr_buffer_create(device, hr_plan_workspace_bytes(plan) + 1, &workspace, &error) != HR_OK) {
    fprintf(stderr, "%s\n", error.message);
    return 1;
  }
  int wrong = run_attention(plan, hr_buffer_data(workspace));
  printf("%s %d\n", HR_VERSION, wrong == 0);
  hr_buffer_free(workspace);
  hr_plan_free(plan);
  hr_device_close(device);
  return wrong != 0;
}
