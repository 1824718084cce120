/* AUROC, and senseless arguments for it. */
#include <math.h>
#include <stddef.h>

#include "frameworks/tests/c/c_test.h"

#define INVALID(call, words) CHECK_FAILS(call, XOE_INVALID_ARGUMENT, words)

void test_stats(void) {
  const double scores[5] = {1, 2, 2, 3, 4};
  const uint8_t positive[5] = {0, 0, 1, 0, 1};
  xoe_auroc auroc;
  double influence[5];
  CHECK_OK(xoe_auroc_of(scores, positive, 5, &auroc, influence));
  CHECK(fabs(auroc.value - 4.5 / 6) < 1e-15 && auroc.positives == 2 && auroc.negatives == 3);
  double sum = 0;
  for (size_t i = 0; i < 5; ++i) sum += influence[i] * influence[i];
  CHECK(fabs(sum - auroc.variance) < 1e-15 && sum > 0);
  CHECK_OK(xoe_auroc_of(scores, positive, 5, &auroc, NULL));

  INVALID(xoe_auroc_of(NULL, positive, 5, &auroc, NULL), "scores is null");
  INVALID(xoe_auroc_of(scores, NULL, 5, &auroc, NULL), "positive is null");
  INVALID(xoe_auroc_of(scores, positive, 5, NULL, NULL), "the result is null");
  INVALID(xoe_auroc_of(scores, positive, 3, &auroc, NULL), "1 positive and 2 negative");
  const double broken[5] = {1, 2, NAN, 3, 4};
  INVALID(xoe_auroc_of(broken, positive, 5, &auroc, NULL), "score 2 of 5 is NaN");
}
