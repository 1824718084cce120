#include "frameworks/tests/c/c_test.h"

static const char* const kDtypes[] = {"uint8",   "int8",     "int16",   "int32",   "int64",
                                      "float16", "bfloat16", "float32", "float64", "bool"};
static const size_t kSizes[] = {1, 1, 2, 4, 8, 2, 2, 4, 8, 1};
static const char* const kReductions[] = {"sum", "average", "min", "max", "product"};

static void test_versions(void) {
  CHECK(xoe_abi_version() >= XOE_ABI_VERSION);
  CHECK(strchr(xoe_version_string(), '.') != NULL);
}

static void test_status_names(void) {
  CHECK(strcmp(xoe_status_name(XOE_OK), "ok") == 0);
  CHECK(strcmp(xoe_status_name(XOE_INVALID_ARGUMENT), "invalid_argument") == 0);
  CHECK(strcmp(xoe_status_name(XOE_PEER_LOST), "peer_lost") == 0);
  CHECK(strcmp(xoe_status_name(XOE_INTERNAL), "internal") == 0);
  CHECK(xoe_status_name(-1) == NULL);
  CHECK(xoe_status_name(INT32_MIN) == NULL);
  CHECK(xoe_status_name(XOE_INTERNAL + 1) == NULL);
}

static void test_dtypes(void) {
  for (int32_t i = XOE_UINT8; i <= XOE_BOOL; ++i) {
    int32_t number = -1;
    CHECK(strcmp(xoe_dtype_name(i), kDtypes[i]) == 0);
    CHECK(xoe_dtype_size(i) == kSizes[i]);
    CHECK_OK(xoe_dtype_from_name(kDtypes[i], &number));
    CHECK(number == i);
  }
  CHECK(xoe_dtype_name(-1) == NULL && xoe_dtype_name(XOE_BOOL + 1) == NULL);
  CHECK(xoe_dtype_size(-1) == 0 && xoe_dtype_size(XOE_BOOL + 1) == 0);
}

static void test_other_names(void) {
  int32_t number = -1;
  for (int32_t i = XOE_SUM; i <= XOE_PRODUCT; ++i) {
    CHECK(strcmp(xoe_reduce_op_name(i), kReductions[i]) == 0);
    CHECK_OK(xoe_reduce_op_from_name(kReductions[i], &number));
    CHECK(number == i);
  }
  for (int32_t i = XOE_ALLREDUCE; i <= XOE_JOIN; ++i) {
    CHECK_OK(xoe_op_kind_from_name(xoe_op_kind_name(i), &number));
    CHECK(number == i);
  }
  for (int32_t i = XOE_COMPRESSION_NONE; i <= XOE_COMPRESSION_POWER_SGD; ++i) {
    CHECK_OK(xoe_compression_from_name(xoe_compression_name(i), &number));
    CHECK(number == i);
  }
  CHECK(strcmp(xoe_op_kind_name(XOE_ALLREDUCE), "allreduce") == 0);
  CHECK(strcmp(xoe_compression_name(XOE_COMPRESSION_BFLOAT16), "bfloat16") == 0);
  CHECK(xoe_reduce_op_name(-1) == NULL && xoe_reduce_op_name(XOE_PRODUCT + 1) == NULL);
  CHECK(xoe_op_kind_name(-1) == NULL && xoe_op_kind_name(XOE_JOIN + 1) == NULL);
  CHECK(xoe_compression_name(-1) == NULL && xoe_compression_name(XOE_COMPRESSION_POWER_SGD + 1) == NULL);
}

static void test_unknown_names(void) {
  int32_t number = 77;
  CHECK_FAILS(xoe_dtype_from_name("float31", &number), XOE_INVALID_ARGUMENT, "no dtype 'float31'; there are uint8, ");
  CHECK_FAILS(xoe_reduce_op_from_name("", &number), XOE_INVALID_ARGUMENT, "product");
  CHECK_FAILS(xoe_op_kind_from_name("gather", &number), XOE_INVALID_ARGUMENT, "allgather");
  CHECK_FAILS(xoe_compression_from_name("zip", &number), XOE_INVALID_ARGUMENT, "bfloat16");
  CHECK_FAILS(xoe_dtype_from_name(NULL, &number), XOE_INVALID_ARGUMENT, "name is null");
  CHECK_FAILS(xoe_reduce_op_from_name("sum", NULL), XOE_INVALID_ARGUMENT, "null");
  CHECK(number == 77);
}

void test_vocabulary(void) {
  CHECK(strcmp(xoe_last_error(), "") == 0);
  test_versions();
  test_status_names();
  test_dtypes();
  test_other_names();
  test_unknown_names();
}
