/* SPDX-License-Identifier: Apache-2.0 */
/* Activations of an MLP are function objects of two values, the second of which those without a gate ignore. The
 * program has exp2_approx() and LOG2_E. */

/* erff() takes longer than the transfer of a 16-bit element, so that 16-bit dtypes use an approximation with an error
 * of 1.5e-7. Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26. */
__device__ inline float error_function(float x)
{
  if (sizeof(element) == 4)
    return erff(x);
  float size = fabsf(x), t = __fdividef(1.0f, 1.0f + 0.3275911f * size);
  float sum = t * (0.254829592f + t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f))));
  return copysignf(1.0f - sum * exp2_approx(-size * size * LOG2_E), x);
}

struct gelu_of {
  __device__ float operator()(float x, float) const
  {
    return 0.5f * x * (1.0f + error_function(x * 0.70710678118654752f));
  }
};

struct swiglu_of {
  __device__ float operator()(float gate, float up) const
  {
    return gate / (1.0f + exp2f(-gate * LOG2_E)) * up;
  }
};

/* x (1 + tanh(u)) / 2 = x / (1 + e^(−2u)). */
__device__ inline float gelu_tanh_value(float x)
{
  float u = 0.7978845608f * (x + 0.044715f * x * x * x);
  return x / (1.0f + exp2f(-2.0f * LOG2_E * u));
}

struct gelu_tanh_of {
  __device__ float operator()(float x, float) const
  {
    return gelu_tanh_value(x);
  }
};

struct geglu_of {
  __device__ float operator()(float gate, float up) const
  {
    return gelu_of()(gate, 0) * up;
  }
};

struct geglu_tanh_of {
  __device__ float operator()(float gate, float up) const
  {
    return gelu_tanh_value(gate) * up;
  }
};

struct relu_of {
  __device__ float operator()(float x, float) const
  {
    return x < 0 ? 0.0f : x;
  }
};

struct relu2_of {
  __device__ float operator()(float x, float) const
  {
    return x < 0 ? 0.0f : x * x;
  }
};

/* Comparisons with a NaN are false, so that it stays. */
struct swiglu_clamped_by {
  float limit;

  __device__ float operator()(float gate, float up) const
  {
    float g = gate > limit ? limit : gate, u = up > limit ? limit : up < -limit ? -limit : up;
    return g / (1.0f + exp2f(-1.702f * LOG2_E * g)) * (u + 1.0f);
  }
};
