// Averages a tensor over all ranks, through the C interface.
//
//	go build -o average . && xoe run -np 4 ./average
package main

/*
#cgo pkg-config: xoe
#include <stdlib.h>
#include <xoe/c.h>
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"
)

// Engine is a rank's part in the job.
type Engine struct {
	engine     *C.xoe_engine
	Rank, Size int
}

// check turns a status into an error. The text belongs to the thread of the call: the caller has locked it.
func check(status C.xoe_status) error {
	if status == C.XOE_OK {
		return nil
	}
	return errors.New(C.GoString(C.xoe_status_name(status)) + ": " + C.GoString(C.xoe_last_error()))
}

// Init joins the job that `xoe run` started.
func Init() (*Engine, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	engine := &Engine{}
	if err := check(C.xoe_init(nil, &engine.engine)); err != nil {
		return nil, err
	}
	var here C.xoe_topology
	if err := check(C.xoe_topology_of(engine.engine, &here)); err != nil {
		return nil, err
	}
	engine.Rank, engine.Size = int(here.rank), int(here.size)
	return engine, nil
}

// Close leaves the job.
func (e *Engine) Close() { C.xoe_shutdown(e.engine) }

// Average replaces values by their average over all ranks. All ranks call it with the same name and length.
func (e *Engine) Average(name string, values []float32) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// What C points to must not be Go's memory that holds pointers: the tensor and its shape are C's.
	shape := (*C.int64_t)(C.malloc(C.sizeof_int64_t))
	defer C.free(unsafe.Pointer(shape))
	*shape = C.int64_t(len(values))
	tensor := (*C.xoe_tensor)(C.calloc(1, C.sizeof_xoe_tensor))
	defer C.free(unsafe.Pointer(tensor))
	label := C.CString(name)
	defer C.free(unsafe.Pointer(label))
	bytes := C.size_t(len(values) * 4)
	data := C.malloc(bytes + 1) // malloc(0) may be null
	defer C.free(data)
	copied := unsafe.Slice((*float32)(data), len(values))
	copy(copied, values)

	tensor.in, tensor.out, tensor.shape, tensor.ndim, tensor.dtype = data, data, shape, 1, C.XOE_FLOAT32
	var request C.xoe_request
	C.xoe_request_init(&request, C.sizeof_xoe_request)
	request.name, request.kind, request.reduce = label, C.XOE_ALLREDUCE, C.XOE_AVERAGE
	request.tensors, request.tensor_count = tensor, 1
	if err := check(C.xoe_run(e.engine, &request)); err != nil {
		return err
	}
	copy(values, copied)
	return nil
}

func main() {
	engine, err := Init()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer engine.Close()
	gradient := []float32{1, 2, 3, float32(engine.Rank)}
	if err := engine.Average("conv1.weight", gradient); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("rank %d of %d: the average is %g\n", engine.Rank, engine.Size, gradient[3])
}
