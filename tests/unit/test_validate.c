/* SPDX-License-Identifier: Apache-2.0 */
/* Predictions beside measured rows. */
#include "test.h"

#include "hardware/hardware.h"
#include "unit/measured.h"

#include <headroom/experimental/predict.h>
#include <headroom/experimental/report.h>
#include <headroom/experimental/validate.h>

static hr_validation *validate(const hr_hardware *hardware, const char *csv)
{
  hr_validation *v = NULL;
  hr_error error;
  const hr_validate_options options = hr_validate_options_default();
  assert_ok(hr_validate_csv(hardware, &(hr_input){.text = csv, .length = strlen(csv), .name = "rows.csv"}, &options, &v,
                            &error),
            error);
  return v;
}

static void fails_with(const char *csv, const char *message)
{
  const hr_hardware hardware = measured_hardware("h200");
  const hr_validate_options options = hr_validate_options_default();
  hr_validation *v = NULL;
  hr_error error;
  assert_int_not_equal(hr_validate_csv(&hardware, &(hr_input){.text = csv, .length = strlen(csv), .name = "rows.csv"},
                                       &options, &v, &error),
                       HR_OK);
  assert_string_equal(error.message, message);
  assert_null(v);
}

static double gemm_ns(const hr_hardware *hardware, int64_t m)
{
  hr_gemm gemm = hr_gemm_default();
  hr_prediction p;
  gemm.m = m, gemm.n = gemm.k = 4096, gemm.transpose_b = true;
  assert_int_equal(hr_predict_gemm(hardware, &gemm, &p, NULL), HR_OK);
  return p.time_ns;
}

/* Three rows at 1, 2 and 0.25 times the prediction: errors 0, 1 and 3, of which the factors' geometric mean is 2. The
 * predicted order is 1 2 3, the measured one too. */
static void errors_are_those_of_the_rows(void **state)
{
  (void)state;
  hr_hardware hardware = measured_hardware("h200");
  char csv[512];
  hardware.interval_count = 0; /* the band: 15% */
  snprintf(csv, sizeof csv,
           "# a comment\nsource,kind,m,n,k,transpose_b,time_ns\r\nx,gemm,1024,4096,4096,1,%.3f\n"
           "\"a, quoted\",gemm,4096,4096,4096,1,%.3f\nx,gemm,65536,4096,4096,1,%.3f\nx,softmax,1,1,1,0,5\n",
           gemm_ns(&hardware, 1024), gemm_ns(&hardware, 4096) / 2, gemm_ns(&hardware, 65536) * 4);
  hr_validation *v = validate(&hardware, csv);
  assert_int_equal(v->row_count, 3);
  assert_int_equal(v->skipped, 1);
  assert_string_equal(v->skipped_why,
                      "line 6: a kind other than gemm, bmm, attention, decode, latent, latent_prefill, experts, "
                      "scan and collectives");
  const hr_validated_group *all = &v->groups[0];
  assert_true(all->kind == HR_INTERVAL_GEMM && all->rows == 3 && all->min_ns == 0 && isinf(all->max_ns));
  assert_true(fabs(all->median - 1) < 1e-4 && fabs(all->p90 - 3) < 1e-4 && fabs(all->mean - 1) < 1e-4);
  assert_true(fabs(all->bias - (cbrt(0.5) - 1)) < 1e-4); /* 1 · 2 · 1/4 */
  assert_true(fabs(all->coverage - 1.0 / 3) < 1e-9);
  assert_true(fabs(all->rank_correlation - 1) < 1e-9);
  int64_t rows = 0;
  for (size_t i = 1; i < v->group_count; i++)
    rows += v->groups[i].rows;
  assert_int_equal(rows, 3);
  assert_int_equal(v->worst_count, 3);
  assert_int_equal(v->rows[v->worst[0]].line, 5);
  assert_string_equal(v->rows[v->worst[0]].term, "matrix");
  hr_validation_free(v);
}

static void rows_of_attention_and_other_devices_are_known(void **state)
{
  (void)state;
  const hr_hardware hardware = measured_hardware("b200");
  hr_validation *v = validate(&hardware, "device,kind,n,batch,q_heads,kv_heads,head_dim,window,time_ns\n"
                                         "b200,attention,512,1,8,8,128,0,20000\n"
                                         "b200,decode,4096,2048,16,8,128,128,150000\n"
                                         "h200,decode,4096,8,16,8,128,0,1\n");
  assert_int_equal(v->row_count, 2);
  assert_int_equal(v->rows[0].attention.q_len, 512);
  assert_int_equal(v->rows[1].attention.q_len, 1);
  assert_int_equal(v->rows[1].attention.window, 128);
  assert_string_equal(v->rows[1].term, "pair");
  assert_string_equal(v->skipped_why, "line 4: another device");
  assert_true(isnan(v->groups[0].rank_correlation));
  hr_validation_free(v);
}

/* The library is named, or part of the source, or the framework's. */
static void rows_of_collectives_are_known(void **state)
{
  (void)state;
  const hr_hardware hardware = measured_hardware("h200");
  hr_validation *v = validate(&hardware, "device,kind,library,source,framework,gpus,nodes,bytes,copies,time_ns\n"
                                         "h200,all_reduce,,aic-nccl-2.29.2,,8,1,4096,,16000\n"
                                         "h200,all_reduce,,aic-vllm-0.24.0,,8,1,4096,,4800\n"
                                         "h200,all_reduce,,,headroom,2,1,4096,,2540\n"
                                         "h200,all_to_all,deepep_sglang,,,16,2,234881024,8,1012000\n"
                                         "b200,all_reduce,nccl,,,8,1,4096,,16000\n");
  static const hr_collective_library libraries[] = {HR_LIBRARY_NCCL, HR_LIBRARY_VLLM, HR_LIBRARY_HEADROOM,
                                                    HR_LIBRARY_DEEPEP_SGLANG};
  assert_int_equal(v->row_count, 4);
  assert_int_equal(v->skipped, 1);
  for (size_t i = 0; i < 4; i++) {
    hr_collective c = v->rows[i].collective;
    hr_hardware placed = hardware;
    hr_prediction p;
    hr_error error;
    c.library = libraries[i];
    placed.devices_per_node = c.devices / v->rows[i].nodes;
    assert_ok(hr_predict_collective(&placed, &c, &p, &error), error);
    assert_true(v->rows[i].prediction.time_ns == p.time_ns && v->rows[i].error < 0.25);
  }
  assert_int_equal(v->groups[0].kind, HR_INTERVAL_COLLECTIVE);
  hr_validation_free(v);
  v = validate(&hardware, "series,problem,status,median_ns\n"
                          "x,collective all_reduce bytes=4096 gpus=2 library=headroom dtype=bf16,ok,2540\n"
                          "x,collective all_reduce bytes=4096 gpus=8 library=nccl dtype=bf16,noisy,9999\n"
                          "x,collective all_reduce bytes=4096 gpus=8 library=nccl dtype=bf16,unsupported,\n");
  assert_true(v->row_count == 1 && v->skipped == 2 && v->rows[0].collective.library == HR_LIBRARY_HEADROOM);
  assert_string_equal(v->skipped_why, "line 3: no time, or a noisy one");
  hr_validation_free(v);
  fails_with("problem,time_ns\ncollective all_reduce gpus=2,1\n",
             "rows.csv: line 2: problem: expected collective NAME bytes=N gpus=N library=NAME, found "
             "\"collective all_reduce gpus=2\"");
  fails_with("kind,library,gpus,bytes,time_ns\nall_reduce,gloo,8,1,1\n",
             "rows.csv: line 2: library: expected nccl, headroom, servers, trtllm, vllm, sglang, deepep_trtllm, "
             "deepep_vllm, deepep_sglang, deepep_ll_trtllm, deepep_ll_vllm or deepep_ll_sglang, found \"gloo\"");
  fails_with("kind,collective,gpus,bytes,time_ns\ncollective,reduce,8,1,1\n",
             "rows.csv: line 2: collective: expected all_reduce, all_gather, reduce_scatter, all_to_all, "
             "point_to_point or broadcast, found \"reduce\"");
  fails_with("kind,gpus,nodes,bytes,time_ns\nall_reduce,8,3,1,1\n",
             "rows.csv: line 2: nodes: expected a divisor of the gpus, found \"3\"");
}

static void a_row_says_whether_its_operands_were_cached(void **state)
{
  (void)state;
  const hr_hardware hardware = measured_hardware("h200");
  hr_validation *v = validate(&hardware, "kind,m,n,k,l2,time_ns\n"
                                         "gemm,8,4096,4096,warm,1\n"
                                         "gemm,8,4096,4096,cold,1\n"
                                         "gemm,8,4096,4096,,1\n");
  assert_true(v->rows[0].prediction.time_ns < v->rows[1].prediction.time_ns);
  assert_true(v->rows[1].prediction.time_ns == v->rows[2].prediction.time_ns);
  hr_validation_free(v);
}

/* A kind is a recurrence, by its name or by that of a library's kernel, or "scan" with a column for it. The times are
 * those of hr_predict_scan(). */
static void rows_of_scans_are_known(void **state)
{
  (void)state;
  const hr_hardware hardware = measured_hardware("h200");
  hr_validation *v = validate(&hardware, "kind,recurrence,phase,batch,seq,heads,head_dim,state,groups,chunk,time_ns\n"
                                         "ssd,,prefill,4,2048,128,64,128,8,256,560000\n"
                                         "scan,gated_delta,decode,16,1,32,128,128,16,64,27000\n"
                                         "convolution,,,1,2048,8192,,4,1,,29000\n");
  hr_scan_call call = hr_scan_call_default();
  hr_prediction p;
  hr_error error;
  assert_int_equal(v->row_count, 3);
  assert_true(v->group_count > 0 && v->groups[0].kind == HR_INTERVAL_SCAN && v->groups[0].rows == 3);
  call.batch = 4, call.tokens = 2048, call.heads = 128, call.head_dim = 64, call.state = 128, call.groups = 8;
  call.chunk = 256;
  assert_ok(hr_predict_scan(&hardware, &call, &p, &error), error);
  assert_true(v->rows[0].prediction.time_ns == p.time_ns && v->rows[0].scan.recurrence == HR_RECURRENCE_SSD);
  assert_true(v->rows[1].scan.updates && v->rows[1].scan.recurrence == HR_RECURRENCE_GATED_DELTA);
  assert_true(v->rows[2].scan.head_dim == 1 && !v->rows[2].scan.updates);
  hr_validation_free(v);
  fails_with("kind,phase,seq,heads,state,time_ns\nmamba,sleep,1,8,16,1\n",
             "rows.csv: line 2: phase: expected prefill or decode, found \"sleep\"");
  fails_with("kind,recurrence,heads,state,time_ns\nscan,lstm,8,16,1\n",
             "rows.csv: line 2: recurrence: expected mamba, mamba2, gated_delta, lightning, rg_lru, convolution or "
             "kimi_delta, found \"lstm\"");
  fails_with("kind,seq,heads,state,time_ns\nmamba,1,8,16,1\n",
             "rows.csv: line 2: groups: expected at least 1, found 0");
}

static void bad_rows_are_named_by_line_and_column(void **state)
{
  (void)state;
  fails_with("", "rows.csv: has no line that names columns");
  fails_with("kind,kind\n", "rows.csv: line 1: column kind is given twice");
  fails_with("kind,m\ngemm\n", "rows.csv: line 2: expected 2 fields as in the head, found 1");
  fails_with("kind,m,n,k,time_ns\ngemm,0,1,1,1\n", "rows.csv: line 2: m: expected an integer from 1 on, found \"0\"");
  fails_with("kind,m,n,k,time_ns\ngemm,1,1,1,-1\n",
             "rows.csv: line 2: time_ns: expected a number above 0, found \"-1\"");
  fails_with("kind,m,n,k\ngemm,1,1,1\n", "rows.csv: line 2: time_ns: is missing");
  fails_with("kind,dtype,time_ns\ngemm,bf15,1\n", "rows.csv: line 2: dtype: expected a number format, found \"bf15\"");
  fails_with("kind,m,n,k,time_ns,l2\ngemm,1,1,1,1,hot\n", "rows.csv: line 2: l2: expected cold or warm, found \"hot\"");
  fails_with("kind,time_ns\nnorm,1\n",
             "rows.csv: no row of h200 to compare; 1 were left out, the first at line 2: a kind other than gemm, bmm, "
             "attention, decode, latent, latent_prefill, experts, scan and collectives");
}

/* Two classes: below 10 µs 0.5 … 3 times, above 0.9 … 1.2. */
static void intervals_are_those_of_the_kind_and_the_size(void **state)
{
  (void)state;
  hr_hardware hardware = measured_hardware("h200");
  hr_gemm gemm = hr_gemm_default();
  hr_prediction p;
  hr_error error;
  hardware.interval_count = 2;
  hardware.intervals[0] = (hr_interval){HR_INTERVAL_GEMM, HR_DTYPE_COUNT, 1e4, 0.5, 3};
  hardware.intervals[1] = (hr_interval){HR_INTERVAL_GEMM, HR_DTYPE_COUNT, 1e18, 0.9, 1.2};
  gemm.m = gemm.n = gemm.k = 128;
  assert_ok(hr_predict_gemm(&hardware, &gemm, &p, &error), error);
  assert_true(p.time_ns < 1e4 && p.low_ns == p.time_ns * 0.5 && p.high_ns == p.time_ns * 3);
  gemm.m = gemm.n = gemm.k = 8192;
  assert_ok(hr_predict_gemm(&hardware, &gemm, &p, &error), error);
  assert_true(p.low_ns == p.time_ns * 0.9 && p.high_ns == p.time_ns * 1.2);
  gemm.n = 8191; /* narrow loads have no interval here: the band */
  assert_ok(hr_predict_gemm(&hardware, &gemm, &p, &error), error);
  assert_true(p.high_ns == p.time_ns * (1 + hardware.error_band));
  hardware.intervals[1].below_ns = 1e3;
  assert_int_equal(hr_hardware_check(&hardware, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "intervals[1]: expected an order by kind, number format and time");
}

/* fp32 has intervals of its own, which come first; without them it has those of all formats. */
static void intervals_of_a_format_go_before_those_of_all(void **state)
{
  (void)state;
  hr_hardware hardware = measured_hardware("h200");
  hr_gemm gemm = hr_gemm_default();
  hr_prediction p;
  hr_error error;
  hardware.interval_count = 2;
  hardware.intervals[0] = (hr_interval){HR_INTERVAL_GEMM, HR_FP32, 1e18, 0.5, 3};
  hardware.intervals[1] = (hr_interval){HR_INTERVAL_GEMM, HR_DTYPE_COUNT, 1e18, 0.9, 1.2};
  gemm.m = gemm.n = gemm.k = 1024;
  gemm.dtype = HR_FP32;
  assert_ok(hr_predict_gemm(&hardware, &gemm, &p, &error), error);
  assert_true(p.low_ns == p.time_ns * 0.5 && p.high_ns == p.time_ns * 3);
  gemm.dtype = HR_BF16;
  assert_ok(hr_predict_gemm(&hardware, &gemm, &p, &error), error);
  assert_true(p.low_ns == p.time_ns * 0.9 && p.high_ns == p.time_ns * 1.2);
  hardware.intervals[0].dtype = (hr_dtype)(HR_DTYPE_COUNT + 1);
  assert_int_equal(hr_hardware_check(&hardware, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "intervals[0].dtype: expected 0 to 6, found 7");
  hardware.intervals[0].dtype = HR_DTYPE_COUNT;
  hardware.intervals[1].dtype = HR_FP32;
  assert_int_equal(hr_hardware_check(&hardware, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "intervals[1]: expected an order by kind, number format and time");
}

static void rows_say_their_clock_and_framework(void **state)
{
  (void)state;
  const hr_hardware hardware = measured_hardware("h200");
  hr_validation *v = validate(&hardware, "kind,m,n,k,batch,q_heads,head_dim,time_ns,clock,framework\n"
                                         "gemm,1024,4096,4096,1,,,50000,burst,\n"
                                         "gemm,1024,4096,4096,1,,,50000,,\n"
                                         "decode,1,4096,,8,32,128,60000,,headroom\n"
                                         "decode,1,4096,,8,32,128,60000,,\n");
  assert_true(v->rows[0].clock == HR_CLOCK_BURST && v->rows[1].clock == HR_CLOCK_SETTLED);
  assert_true(v->rows[0].prediction.time_ns < v->rows[1].prediction.time_ns);
  assert_true(v->rows[2].prediction.time_ns < v->rows[3].prediction.time_ns); /* a launch of 3 us instead of 13 */
  hr_validation_free(v);
  v = validate(&hardware, "kind,m,n,k,dtype,rounding,time_ns,framework\n"
                          "gemm,16,4096,4096,fp8,1,20000,trtllm\ngemm,16,4096,4096,fp8,1,20000,\n");
  assert_true(v->rows[0].prediction.time_ns > v->rows[1].prediction.time_ns + 5000); /* two more kernels */
  hr_validation_free(v);
  fails_with("kind,m,n,k,time_ns,clock\ngemm,1,1,1,5,fast\n",
             "rows.csv: line 2: clock: expected settled or burst, found \"fast\"");
  fails_with("kind,n,q_heads,k,time_ns,framework\ndecode,9,1,64,5,jax\n",
             "rows.csv: line 2: framework: expected headroom, compiled, eager, trtllm, vllm or sglang, found \"jax\"");
}

/* A source has the server's name and version. The least time of several is none of theirs, and a framework that the row
 * names goes before. */
static void rows_are_of_the_server_that_their_source_names(void **state)
{
  (void)state;
  const hr_hardware hardware = measured_hardware("h200");
  hr_validation *v = validate(&hardware, "kind,m,n,k,dtype,rounding,time_ns,source,framework\n"
                                         "gemm,16,4096,4096,fp8,1,20000,aic-trtllm-1.3.0rc20,\n"
                                         "gemm,16,4096,4096,fp8,1,20000,aic-best-trtllm,\n"
                                         "gemm,16,4096,4096,fp8,1,20000,aic-trtllm-1.3.0rc20,compiled\n");
  const hr_framework expected[] = {HR_FRAMEWORK_TRTLLM, HR_FRAMEWORK_COMPILED, HR_FRAMEWORK_COMPILED};
  for (int i = 0; i < 3; i++)
    assert_int_equal(v->rows[i].framework, expected[i]);
  hr_validation_free(v);
  v = validate(&hardware, "kind,m,hidden,intermediate,experts,top_k,time_ns,source,kernel,clock\n"
                          "experts,64,2048,768,128,8,200000,aic-sglang-0.5.14,cutlass,burst\n"
                          "experts,64,2048,768,128,8,200000,aic-sglang-0.5.14,triton,\n");
  assert_true(v->rows[0].experts.kernels == HR_EXPERTS_CUTLASS && v->rows[1].experts.kernels == HR_EXPERTS_TRITON);
  assert_true(v->rows[0].cache == HR_CACHE_WARM && v->rows[1].cache == HR_CACHE_COLD);
  assert_true(v->rows[0].experts.top_k == 8);
  assert_true(v->rows[0].prediction.time_ns > 1.5 * v->rows[1].prediction.time_ns);
  hr_validation_free(v);
}

/* Equal loads of 4096 tokens to 8 of 128 experts each on 16 devices are 2048 rows of a device. The most loaded one has
 * more, at most 8 experts for all tokens, and by the steeper law more than by the flatter one. */
static void a_power_law_loads_the_busiest_device(void **state)
{
  (void)state;
  const hr_hardware hardware = measured_hardware("h200");
  hr_validation *v = validate(&hardware, "kind,m,hidden,intermediate,experts,top_k,ep,time_ns,routing\n"
                                         "experts,4096,2048,768,128,8,16,200000,balanced\n"
                                         "experts,4096,2048,768,128,8,16,200000,power_law_1.01\n"
                                         "experts,4096,2048,768,128,8,16,200000,power_law_1.2\n"
                                         "experts,4096,2048,768,128,8,16,200000,uniform\n"
                                         "experts,1,2048,768,128,8,16,200000,power_law_1.2\n"
                                         "experts,4096,2048,768,128,8,1,200000,power_law_1.2\n");
  const int64_t rows[] = {v->rows[0].experts.rows, v->rows[1].experts.rows, v->rows[2].experts.rows};
  static const char *const laws[] = {"1", "4.5", "x"};
  for (size_t i = 0; i < 3; i++) {
    char csv[160], message[160];
    snprintf(csv, sizeof csv,
             "kind,m,hidden,intermediate,experts,top_k,ep,time_ns,routing\n"
             "experts,4096,2048,768,128,8,16,200000,power_law_%s\n",
             laws[i]);
    snprintf(
        message, sizeof message,
        "rows.csv: line 2: routing: expected power_law_ and an exponent above 1, at most 4, found \"power_law_%s\"",
        laws[i]);
    fails_with(csv, message);
  }
  assert_true(rows[0] == 2048 && (double)rows[1] > 1.2 * 2048 && (double)rows[2] > 1.2 * (double)rows[1] &&
              rows[2] < 8 * 4096);
  assert_true(v->rows[3].experts.rows == 2048 && v->rows[3].experts.experts == 8);
  /* A token's choices are fewer than experts: most loads are rounded to none, and the first experts get the rest. */
  assert_true(v->rows[4].experts.rows >= 6 && v->rows[4].experts.rows <= 8);
  assert_true(v->rows[5].experts.rows <= 4096 * 8 && (double)v->rows[5].experts.rows > 0.8 * 4096 * 8);
  assert_true(v->rows[2].prediction.time_ns > 1.2 * v->rows[0].prediction.time_ns);
  hr_validation_free(v);
}

/* The same rows from a list as from text. */
static void rows_of_a_list_are_predicted_for_their_conditions(void **state)
{
  (void)state;
  hr_hardware hardware = measured_hardware("h200");
  hr_validation *v = NULL;
  hr_error error;
  hr_validated_row rows[3];
  hardware.dense_flops_per_s[HR_FP64] = 0;
  for (int i = 0; i < 3; i++) {
    rows[i] = (hr_validated_row){.line = i + 1, .kind = HR_INTERVAL_GEMM, .gemm = hr_gemm_default()};
    rows[i].gemm.m = 1024, rows[i].gemm.n = rows[i].gemm.k = 4096, rows[i].gemm.transpose_b = true;
    rows[i].measured_ns = gemm_ns(&hardware, 1024) * 2;
  }
  rows[1].clock = HR_CLOCK_BURST;
  rows[2].gemm.dtype = HR_FP64;
  assert_ok(hr_validate_rows(&hardware, rows, 3, &v, &error), error);
  assert_true(v->row_count == 2 && v->skipped == 1);
  assert_true(fabs(v->rows[0].error - 1) < 1e-9 && v->rows[1].error > 1);
  hr_validation_free(v);
  rows[1].measured_ns = 0;
  assert_int_equal(hr_validate_rows(&hardware, rows, 3, &v, &error), HR_ERROR_INVALID);
  assert_string_equal(error.message, "row 2: measured_ns: expected a number above 0");
}

/* GEMMs of such rows have the default format, bf16. */
static void a_row_has_the_number_format_of_its_problem(void **state)
{
  (void)state;
  static const char *const words[] = {"gemm,fp64,", "attention,fp16,", "decode,fp32,", "experts,fp8,", "scan,fp32,"};
  const hr_hardware hardware = measured_hardware("h200");
  const hr_validated_row row = {.gemm = hr_gemm_default(),
                                .attention = hr_attention_default(),
                                .experts = hr_expert_call_default(),
                                .scan = hr_scan_call_default(),
                                .measured_ns = 1};
  hr_validated_row rows[] = {row, row, row, row, row};
  hr_report_options options = hr_report_options_default();
  char *text = NULL;
  size_t length = 0;
  hr_error error;
  FILE *out = open_memstream(&text, &length);
  rows[0].kind = HR_INTERVAL_GEMM, rows[0].gemm.dtype = HR_FP64;
  rows[1].kind = HR_INTERVAL_ATTENTION, rows[1].attention.dtype = HR_FP16;
  rows[2].kind = HR_INTERVAL_DECODE, rows[2].attention.dtype = HR_FP32;
  rows[3].kind = HR_INTERVAL_EXPERTS, rows[3].experts.dtype = HR_FP8_E4M3;
  rows[4].kind = HR_INTERVAL_SCAN, rows[4].scan.dtype = HR_FP32;
  options.format = HR_FORMAT_CSV;
  assert_ok(hr_report_validation(out, &options, &hardware, &(hr_validation){.rows = rows, .row_count = 5}, &error),
            error);
  fclose(out);
  for (size_t i = 0; i < 5; i++)
    assert_non_null(strstr(text, words[i]));
  free(text);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(errors_are_those_of_the_rows),
      cmocka_unit_test(rows_of_attention_and_other_devices_are_known),
      cmocka_unit_test(a_row_says_whether_its_operands_were_cached),
      cmocka_unit_test(rows_of_scans_are_known),
      cmocka_unit_test(rows_of_collectives_are_known),
      cmocka_unit_test(bad_rows_are_named_by_line_and_column),
      cmocka_unit_test(intervals_are_those_of_the_kind_and_the_size),
      cmocka_unit_test(intervals_of_a_format_go_before_those_of_all),
      cmocka_unit_test(rows_say_their_clock_and_framework),
      cmocka_unit_test(rows_are_of_the_server_that_their_source_names),
      cmocka_unit_test(a_power_law_loads_the_busiest_device),
      cmocka_unit_test(rows_of_a_list_are_predicted_for_their_conditions),
      cmocka_unit_test(a_row_has_the_number_format_of_its_problem),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
