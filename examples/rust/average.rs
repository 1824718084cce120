//! Averages a tensor over all ranks, through the C interface. A whole binding would be made by bindgen; this declares the few
//! functions that it calls, and asks the library for the defaults of a request.
//!   rustc average.rs $(pkg-config --libs-only-L xoe) && xoe run -np 4 ./average
use std::ffi::{c_char, c_double, c_void, CStr, CString};
use std::ptr;

const FLOAT32: i32 = 7;
const ALLREDUCE: i32 = 0;
const AVERAGE: i32 = 1;

#[repr(C)]
#[derive(Default)]
struct Topology {
    rank: i32,
    size: i32,
    local_rank: i32,
    local_size: i32,
    cross_rank: i32,
    cross_size: i32,
}

#[repr(C)]
struct Tensor {
    input: *const c_void,
    output: *mut c_void,
    shape: *const i64,
    ndim: i32,
    dtype: i32,
    reserved: [u64; 4],
}

/// xoe_request as it began: the library takes the length from struct_size, so a caller may know fewer members than it does.
#[repr(C)]
struct Request {
    struct_size: usize,
    name: *const c_char,
    kind: i32,
    reduce: i32,
    tensors: *const Tensor,
    tensor_count: usize,
    prescale: c_double,
    postscale: c_double,
    root: i32,
    process_set: i32,
    rest: [u64; 9], // from splits to callback_user: as xoe_request_init() leaves them
}

#[link(name = "xoe")]
extern "C" {
    fn xoe_init(options: *const c_void, engine: *mut *mut c_void) -> i32;
    fn xoe_shutdown(engine: *mut c_void);
    fn xoe_topology_of(engine: *const c_void, here: *mut Topology) -> i32;
    fn xoe_request_init(request: *mut Request, struct_size: usize);
    fn xoe_run(engine: *mut c_void, request: *const Request) -> i32;
    fn xoe_last_error() -> *const c_char;
}

/// A rank's part in the job.
struct Engine {
    engine: *mut c_void,
    here: Topology,
}

fn check(status: i32) -> Result<(), String> {
    match status {
        0 => Ok(()),
        _ => Err(unsafe { CStr::from_ptr(xoe_last_error()) }.to_string_lossy().into_owned()),
    }
}

impl Engine {
    /// Joins the job that `xoe run` started.
    fn init() -> Result<Engine, String> {
        let mut engine = Engine { engine: ptr::null_mut(), here: Topology::default() };
        check(unsafe { xoe_init(ptr::null(), &mut engine.engine) })?;
        check(unsafe { xoe_topology_of(engine.engine, &mut engine.here) })?;
        Ok(engine)
    }

    /// Replaces values by their average over all ranks. All ranks call it with the same name and length.
    fn average(&self, name: &str, values: &mut [f32]) -> Result<(), String> {
        let name = CString::new(name).map_err(|error| error.to_string())?;
        let shape = [values.len() as i64];
        let data = values.as_mut_ptr().cast::<c_void>();
        let tensor =
            Tensor { input: data, output: data, shape: shape.as_ptr(), ndim: 1, dtype: FLOAT32, reserved: [0; 4] };
        let mut request = std::mem::MaybeUninit::<Request>::zeroed();
        let request = unsafe {
            xoe_request_init(request.as_mut_ptr(), std::mem::size_of::<Request>());
            request.assume_init_mut()
        };
        request.name = name.as_ptr();
        request.kind = ALLREDUCE;
        request.reduce = AVERAGE;
        request.tensors = &tensor;
        request.tensor_count = 1;
        check(unsafe { xoe_run(self.engine, request) })
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        unsafe { xoe_shutdown(self.engine) }
    }
}

fn main() -> Result<(), String> {
    let engine = Engine::init()?;
    let mut gradient = [1.0, 2.0, 3.0, engine.here.rank as f32];
    engine.average("conv1.weight", &mut gradient)?;
    println!("rank {} of {}: the average is {}", engine.here.rank, engine.here.size, gradient[3]);
    Ok(())
}
