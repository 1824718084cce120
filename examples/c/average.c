/* Averages a tensor over all ranks, through the C interface.
 *   cc average.c $(pkg-config --cflags --libs xoe) -o average && xoe run -np 4 ./average */
#include <stdio.h>
#include <xoe/c.h>

int main(void) {
  xoe_engine* engine = NULL;
  if (xoe_init(NULL, &engine) != XOE_OK) { /* configured by the environment that `xoe run` makes */
    fprintf(stderr, "%s\n", xoe_last_error());
    return 1;
  }
  xoe_topology here;
  if (xoe_topology_of(engine, &here) != XOE_OK) return 1;

  float gradient[] = {1, 2, 3, (float)here.rank};
  const int64_t shape[] = {4};
  const xoe_tensor tensor = {.in = gradient, .out = gradient, .shape = shape, .ndim = 1, .dtype = XOE_FLOAT32};

  xoe_request request;
  xoe_request_init(&request, sizeof(request));
  request.name = "conv1.weight";
  request.kind = XOE_ALLREDUCE;
  request.reduce = XOE_AVERAGE;
  request.tensors = &tensor;
  request.tensor_count = 1;

  xoe_handle* handle = NULL;
  xoe_status status = xoe_submit(engine, &request, &handle);
  /* the next gradient would be computed here */
  if (status == XOE_OK) status = xoe_wait(handle);
  if (status != XOE_OK) fprintf(stderr, "%s: %s\n", xoe_status_name(status), xoe_last_error());
  if (status == XOE_OK) printf("rank %d of %d: the average is %g\n", here.rank, here.size, (double)gradient[3]);
  xoe_release(handle);
  xoe_shutdown(engine);
  return status != XOE_OK;
}
