/* Steps of optimizers, and senseless arguments for them. */
#include <stddef.h>

#include "frameworks/tests/c/c_test.h"

#define INVALID(call, words) CHECK_FAILS(call, XOE_INVALID_ARGUMENT, words)

static void test_sgd(void) {
  float parameter[3] = {1, 2, 3};
  float momentum[3] = {7, 7, 7};
  const float first[3] = {1, 2, 4}, second[3] = {3, 2, 0};
  const void* gradients[2] = {first, second};
  xoe_step step = {parameter, NULL, gradients, 2, 3, XOE_FLOAT32, XOE_FLOAT32, XOE_AVERAGE, 0};
  xoe_sgd options;
  xoe_sgd_init(&options, sizeof(options));
  CHECK(options.struct_size == sizeof(options) && options.gradient_scale == 1 && options.momentum == 0);
  options.learning_rate = 0.5;
  options.momentum = 0.5;
  options.first = 1;
  CHECK_OK(xoe_sgd_step(&options, &step, momentum));
  CHECK(parameter[0] == 0 && parameter[1] == 1 && parameter[2] == 2 && momentum[0] == 2);
  options.first = 0;
  CHECK_OK(xoe_sgd_step(&options, &step, momentum));
  CHECK(momentum[0] == 3 && parameter[0] == -1.5F);

  INVALID(xoe_sgd_step(NULL, &step, momentum), "options is null");
  INVALID(xoe_sgd_step(&options, NULL, momentum), "step is null");
  INVALID(xoe_sgd_step(&options, &step, NULL), "momentum is null");
  options.struct_size = 8;
  INVALID(xoe_sgd_step(&options, &step, momentum), "struct_size is 8");
  CHECK(momentum[0] == 3 && parameter[0] == -1.5F);
  xoe_sgd_init(NULL, sizeof(options));
}

static void test_step(void) {
  float parameter[1] = {1};
  const float gradient[1] = {1};
  const void* gradients[1] = {gradient};
  const xoe_step good = {parameter, NULL, gradients, 1, 1, XOE_FLOAT32, XOE_FLOAT32, XOE_SUM, 0};
  xoe_sgd options;
  xoe_sgd_init(&options, sizeof(options));
  xoe_step step = good;
  step.dtype = XOE_FLOAT64;
  INVALID(xoe_sgd_step(&options, &step, NULL), "must be float32, float16 or bfloat16");
  step.dtype = XOE_BFLOAT16;
  INVALID(xoe_sgd_step(&options, &step, NULL), "master");
  step = good;
  step.gradient_dtype = XOE_FLOAT16;
  INVALID(xoe_sgd_step(&options, &step, NULL), "gradient_dtype");
  step = good;
  step.master = parameter;
  INVALID(xoe_sgd_step(&options, &step, NULL), "master is given");
  step = good;
  step.reduce = XOE_MAX;
  INVALID(xoe_sgd_step(&options, &step, NULL), "reduce");
  step = good;
  step.gradient_count = 0;
  INVALID(xoe_sgd_step(&options, &step, NULL), "gradient_count is 0");
  step.gradient_count = 1025;
  INVALID(xoe_sgd_step(&options, &step, NULL), "gradient_count is 1025");
  step = good;
  step.parameter = NULL;
  INVALID(xoe_sgd_step(&options, &step, NULL), "parameter is null");
  step.count = 0;
  CHECK_OK(xoe_sgd_step(&options, &step, NULL));
  gradients[0] = NULL;
  INVALID(xoe_sgd_step(&options, &good, NULL), "a gradient is null");
}

static void test_adam(void) {
  float parameter[2] = {1, 1}, mean[2] = {0, 0}, square[2] = {0, 0};
  const float gradient[2] = {2, -4};
  const void* gradients[1] = {gradient};
  const xoe_step step = {parameter, NULL, gradients, 1, 2, XOE_FLOAT32, XOE_FLOAT32, XOE_SUM, 0};
  xoe_adam options;
  xoe_adam_init(&options, sizeof(options));
  CHECK(options.beta2 == 0.999 && options.epsilon == 1e-8 && options.step == 1);
  options.learning_rate = 0.5;
  CHECK_OK(xoe_adam_step(&options, &step, mean, square, NULL)); /* by the learning rate, against the gradient */
  CHECK(parameter[0] > 0.4999F && parameter[0] < 0.5001F && parameter[1] > 1.4999F && parameter[1] < 1.5001F);
  INVALID(xoe_adam_step(NULL, &step, mean, square, NULL), "options is null");
  INVALID(xoe_adam_step(&options, &step, NULL, square, NULL), "mean is null");
  INVALID(xoe_adam_step(&options, &step, mean, NULL, NULL), "square is null");
  options.step = 0;
  INVALID(xoe_adam_step(&options, &step, mean, square, NULL), "step is 0");
  xoe_adam_init(NULL, sizeof(options));
}

static void test_lars(void) {
  float parameter[2] = {3, 4};
  const float gradient[2] = {0, 2};
  const void* gradients[1] = {gradient};
  const xoe_step step = {parameter, NULL, gradients, 1, 2, XOE_FLOAT32, XOE_FLOAT32, XOE_SUM, 0};
  xoe_sgd options;
  xoe_sgd_init(&options, sizeof(options));
  CHECK(options.trust == 1);
  options.learning_rate = 1;
  xoe_norms norms = {0, 0};
  CHECK_OK(xoe_lars_norms(&options, &step, &norms));
  CHECK(norms.parameter == 25 && norms.update == 4);
  CHECK_OK(xoe_lars_trust(&options, &norms, 0.2, 0, &options.trust));
  CHECK(options.trust == 0.5);
  CHECK_OK(xoe_sgd_step(&options, &step, NULL));
  CHECK(parameter[0] == 3 && parameter[1] == 3);

  options.struct_size = offsetof(xoe_sgd, trust); /* a caller that was compiled before there was a trust */
  CHECK_OK(xoe_sgd_step(&options, &step, NULL));
  CHECK(parameter[1] == 1);
  INVALID(xoe_lars_norms(NULL, &step, &norms), "options is null");
  INVALID(xoe_lars_norms(&options, NULL, &norms), "step is null");
  INVALID(xoe_lars_norms(&options, &step, NULL), "norms is null");
  INVALID(xoe_lars_trust(&options, NULL, 1, 0, &options.trust), "norms is null");
  INVALID(xoe_lars_trust(&options, &norms, 1, 0, NULL), "trust is null");
}

static void test_lamb(void) {
  float parameter[2] = {3, 4}, mean[2] = {0, 0}, square[2] = {0, 0};
  const float gradient[2] = {2, 0};
  const void* gradients[1] = {gradient};
  const xoe_step step = {parameter, NULL, gradients, 1, 2, XOE_FLOAT32, XOE_FLOAT32, XOE_SUM, 0};
  xoe_adam options;
  xoe_adam_init(&options, sizeof(options));
  options.learning_rate = 0.1;
  options.epsilon = 1e-12;
  xoe_norms norms = {0, 0};
  double trust = 0;
  CHECK_OK(xoe_lamb_moments(&options, &step, mean, square, &norms)); /* the first update: 1 where there is a gradient */
  CHECK(norms.parameter == 25 && norms.update > 0.9999 && norms.update < 1.0001);
  CHECK(parameter[0] == 3 && mean[0] > 0.1999F && mean[0] < 0.2001F);
  CHECK_OK(xoe_lamb_trust(&norms, &trust));
  CHECK(trust > 4.999 && trust < 5.001);
  CHECK_OK(xoe_lamb_apply(&options, &step, mean, square, trust));
  CHECK(parameter[0] > 2.499F && parameter[0] < 2.501F && parameter[1] == 4);

  INVALID(xoe_lamb_moments(&options, &step, NULL, square, &norms), "mean is null");
  INVALID(xoe_lamb_moments(&options, &step, mean, square, NULL), "norms is null");
  INVALID(xoe_lamb_apply(&options, &step, mean, NULL, trust), "square is null");
  INVALID(xoe_lamb_apply(NULL, &step, mean, square, trust), "options is null");
  INVALID(xoe_lamb_trust(NULL, &trust), "norms is null");
  INVALID(xoe_lamb_trust(&norms, NULL), "trust is null");
}

void test_optimizer_steps(void) {
  test_lars();
  test_lamb();
  test_sgd();
  test_step();
  test_adam();
}
