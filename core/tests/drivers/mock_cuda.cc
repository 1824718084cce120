// The mock's CUDA runtime.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "core/tests/drivers/mock_machine.h"

namespace xoe::testing {
namespace {

thread_local int set_device_of_thread = 0;
thread_local std::vector<int> pushed_devices;
thread_local CudaCaptureMode capture_mode = CudaCaptureMode::kGlobal;
thread_local CudaError last_error = CudaError::kSuccess;

int current_device() { return pushed_devices.empty() ? set_device_of_thread : pushed_devices.back(); }

MockFaults& faults() { return mock_machine().faults[static_cast<std::size_t>(current_device())]; }

// Every call that does not succeed leaves its error behind, "not ready" included.
CudaError answer(CudaError error) {
  if (error != CudaError::kSuccess) last_error = error;
  return error;
}

// Calls that need a context create one on the thread's device. Locked.
void use_context() { mock_machine().contexts.insert(current_device()); }

// Reports a call that invalidates another thread's capture, unless this thread's mode is relaxed. Locked.
void unsafe_in_captures(const char* call) {
  if (!mock_machine().capturing.empty() && capture_mode != CudaCaptureMode::kRelaxed)
    mock_machine().misuse(std::string(call) + " spoils another thread's capture");
}

CudaError runtime_get_version(int* version) {
  *version = 13020;
  return CudaError::kSuccess;
}

CudaError get_device_count(int* count) {
  *count = mock_machine().device_count;
  return *count == 0 ? CudaError::kNoDevice : CudaError::kSuccess;
}

// Since CUDA 12 it creates the context.
CudaError set_device(int device) {
  const std::lock_guard lock(mock_machine().mutex);
  set_device_of_thread = device;
  if (!pushed_devices.empty()) pushed_devices.back() = device;
  use_context();
  return CudaError::kSuccess;
}

CudaError get_device(int* device) {
  *device = current_device();
  return CudaError::kSuccess;
}

CudaError stream_is_capturing(CudaStream stream, CudaCapture* capture) {
  MockMachine& machine = mock_machine();
  const std::lock_guard lock(machine.mutex);
  if (stream == nullptr && !machine.capturing.empty()) return answer(CudaError::kStreamCaptureImplicit);
  *capture = machine.capturing.count(stream) != 0 ? CudaCapture::kActive : CudaCapture::kNone;
  return CudaError::kSuccess;
}

CudaError thread_exchange_capture_mode(CudaCaptureMode* mode) {
  const std::lock_guard lock(mock_machine().mutex);
  use_context();  // as PyTorch has seen it do
  std::swap(*mode, capture_mode);
  return CudaError::kSuccess;
}

CudaError get_last_error() { return std::exchange(last_error, CudaError::kSuccess); }

int device_primary_context_retain(CudaContext* context, int device) {
  const std::lock_guard lock(mock_machine().mutex);
  mock_machine().contexts.insert(device);
  *context = reinterpret_cast<CudaContext>(static_cast<std::intptr_t>(device + 1));
  return 0;
}

int context_push_current(CudaContext context) {
  pushed_devices.push_back(static_cast<int>(reinterpret_cast<std::intptr_t>(context)) - 1);
  return 0;
}

int context_pop_current(CudaContext*) {
  pushed_devices.pop_back();
  return 0;
}

CudaError get_device_properties(CudaProperties* properties, int device) {
  std::snprintf(properties->name, sizeof properties->name, "Mock GPU");
  constexpr unsigned char kUuid[16] = {0,    0,    0,    0,    0x11, 0x11, 0x22, 0x22,
                                       0x33, 0x33, 0x44, 0x44, 0x44, 0x44, 0x44, 0x40};
  std::memcpy(properties->uuid, kUuid, sizeof kUuid);
  properties->uuid[15] = static_cast<unsigned char>(kUuid[15] + device);
  return CudaError::kSuccess;
}

CudaError device_get_pci_bus_id(char* text, int length, int device) {
  std::snprintf(text, static_cast<std::size_t>(length), "0000:%02x:00.0", device + 1);
  return CudaError::kSuccess;
}

CudaError stream_create_with_flags(CudaStream* stream, unsigned) {
  MockMachine& machine = mock_machine();
  const std::lock_guard lock(machine.mutex);
  machine.streams.push_back(std::make_unique<MockStream>());
  machine.streams.back()->device = current_device();
  *stream = reinterpret_cast<CudaStream>(machine.streams.back().get());
  return CudaError::kSuccess;
}

CudaError stream_destroy(CudaStream stream) {
  MockMachine& machine = mock_machine();
  const std::lock_guard lock(machine.mutex);
  MockStream& own = machine.stream(stream);
  if (!own.alive) machine.misuse("a stream destroyed twice");
  own.alive = false;
  own.closing = true;
  machine.changed.notify_all();
  return CudaError::kSuccess;
}

CudaError event_create_with_flags(CudaEvent* event, unsigned) {
  MockMachine& machine = mock_machine();
  const std::lock_guard lock(machine.mutex);
  use_context();
  machine.events.push_back(std::make_unique<MockEvent>());
  *event = reinterpret_cast<CudaEvent>(machine.events.back().get());
  return CudaError::kSuccess;
}

CudaError event_destroy(CudaEvent event) {
  MockMachine& machine = mock_machine();
  const std::lock_guard lock(machine.mutex);
  use_context();
  auto& own = *reinterpret_cast<MockEvent*>(event);
  if (!own.alive) machine.misuse("an event destroyed twice");
  own.alive = false;
  return CudaError::kSuccess;
}

CudaError event_record(CudaEvent event, CudaStream stream) {
  MockMachine& machine = mock_machine();
  const std::lock_guard lock(machine.mutex);
  machine.log(current_device(), "event_record", stream, event);
  if (machine.capturing.count(stream) != 0) machine.misuse("an event recorded into a graph");
  if (machine.stream(stream).device != current_device()) machine.misuse("an event recorded on another GPU's stream");
  const auto mark = std::make_shared<bool>(false);
  reinterpret_cast<MockEvent*>(event)->mark = mark;
  machine.enqueue(stream, [&machine, mark] {
    const std::lock_guard inner(machine.mutex);
    *mark = true;
  });
  return CudaError::kSuccess;
}

CudaError event_query(CudaEvent event) {
  MockMachine& machine = mock_machine();
  const std::lock_guard lock(machine.mutex);
  unsafe_in_captures("cudaEventQuery");
  if (faults().querying != CudaError::kSuccess) return answer(faults().querying);
  const auto& mark = reinterpret_cast<MockEvent*>(event)->mark;
  return answer(mark == nullptr || *mark ? CudaError::kSuccess : CudaError::kNotReady);
}

CudaError stream_wait_event(CudaStream stream, CudaEvent event, unsigned) {
  MockMachine& machine = mock_machine();
  const std::lock_guard lock(machine.mutex);
  machine.log(current_device(), "stream_wait_event", stream, event);
  const auto mark = reinterpret_cast<MockEvent*>(event)->mark;
  if (mark == nullptr) return CudaError::kSuccess;
  machine.enqueue(stream, [&machine, mark] {
    std::unique_lock inner(machine.mutex);
    machine.changed.wait(inner, [&] { return machine.ending || *mark; });
  });
  return CudaError::kSuccess;
}

CudaError memcpy_async(void* to, const void* from, std::size_t bytes, CudaCopy, CudaStream stream) {
  MockMachine& machine = mock_machine();
  const std::lock_guard lock(machine.mutex);
  machine.log(current_device(), "memcpy_async", stream);
  machine.enqueue(stream, [&machine, to, from, bytes, takes = faults().copies_for] {
    std::this_thread::sleep_for(takes);
    if (machine.before_copy) machine.before_copy();
    const std::lock_guard inner(machine.mutex);
    std::memcpy(to, from, bytes);
  });
  return CudaError::kSuccess;
}

CudaError launch_host_func(CudaStream stream, void (*function)(void*), void* data) {
  MockMachine& machine = mock_machine();
  const std::lock_guard lock(machine.mutex);
  machine.enqueue(stream, [function, data] { function(data); });
  return CudaError::kSuccess;
}

CudaError allocate(void** memory, std::size_t bytes, bool host) {
  MockMachine& machine = mock_machine();
  const std::lock_guard lock(machine.mutex);
  use_context();
  unsafe_in_captures("an allocation");
  if (faults().allocating != CudaError::kSuccess) return answer(faults().allocating);
  MockMachine::Allocation made{bytes, current_device(), host, ++machine.allocated,
                               std::make_unique<std::byte[]>(bytes)};
  *memory = made.memory.get();
  machine.allocations.emplace(reinterpret_cast<std::uintptr_t>(*memory), std::move(made));
  return CudaError::kSuccess;
}

// Waits for all that runs on the GPU, as CUDA does.
CudaError release(void* memory, bool host) {
  MockMachine& machine = mock_machine();
  std::unique_lock lock(machine.mutex);
  const auto is_idle = [](const auto& s) { return s->device != current_device() || (!s->busy && s->work.empty()); };
  machine.changed.wait(lock, [&] { return machine.ending || std::ranges::all_of(machine.streams, is_idle); });
  const auto found = machine.allocations.find(reinterpret_cast<std::uintptr_t>(memory));
  if (found == machine.allocations.end() || found->second.host != host)
    machine.misuse("memory freed that is none");
  else
    machine.allocations.erase(found);
  return CudaError::kSuccess;
}

CudaError pointer_get_attributes(CudaPointer* place, const void* address) {
  MockMachine& machine = mock_machine();
  const std::lock_guard lock(machine.mutex);
  const auto found = machine.find(address);
  *place = {};
  if (found == machine.allocations.end()) return CudaError::kSuccess;
  place->memory = found->second.host ? CudaMemory::kHost : CudaMemory::kDevice;
  place->device = found->second.device;
  return CudaError::kSuccess;
}

const char* get_error_string(CudaError error) {
  if (error == CudaError::kMemoryAllocation) return "out of memory";
  return error == CudaError::kNoDevice ? "no CUDA-capable device is detected"
                                       : "an illegal memory access was encountered";
}

int mem_get_address_range(unsigned long long* begin, std::size_t* bytes, unsigned long long address) {
  MockMachine& machine = mock_machine();
  const std::lock_guard lock(machine.mutex);
  const auto found = machine.find(reinterpret_cast<const void*>(address));
  if (found == machine.allocations.end()) return 1;
  *begin = found->first;
  *bytes = found->second.bytes;
  return 0;
}

int pointer_get_attribute(void* value, int attribute, unsigned long long address) {
  MockMachine& machine = mock_machine();
  const std::lock_guard lock(machine.mutex);
  const auto found = machine.find(reinterpret_cast<const void*>(address));
  if (attribute != kCudaBufferId || found == machine.allocations.end()) return 1;
  std::memcpy(value, &found->second.number, sizeof found->second.number);
  return 0;
}

}  // namespace

int mock_device() { return current_device(); }

CudaApi mock_cuda_api() {
  return {.runtime_get_version = runtime_get_version,
          .get_device_count = get_device_count,
          .set_device = set_device,
          .get_device = get_device,
          .get_device_properties = get_device_properties,
          .device_get_pci_bus_id = device_get_pci_bus_id,
          .stream_create_with_flags = stream_create_with_flags,
          .stream_destroy = stream_destroy,
          .stream_wait_event = stream_wait_event,
          .stream_is_capturing = stream_is_capturing,
          .thread_exchange_capture_mode = thread_exchange_capture_mode,
          .event_create_with_flags = event_create_with_flags,
          .event_destroy = event_destroy,
          .event_record = event_record,
          .event_query = event_query,
          .memcpy_async = memcpy_async,
          .launch_host_func = launch_host_func,
          .malloc = [](void** memory, std::size_t bytes) { return allocate(memory, bytes, false); },
          .free = [](void* memory) { return release(memory, false); },
          .host_alloc = [](void** memory, std::size_t bytes, unsigned) { return allocate(memory, bytes, true); },
          .free_host = [](void* memory) { return release(memory, true); },
          .pointer_get_attributes = pointer_get_attributes,
          .get_last_error = get_last_error,
          .get_error_string = get_error_string,
          .mem_get_address_range = mem_get_address_range,
          .pointer_get_attribute = pointer_get_attribute,
          .device_get =
              [](int* device, int ordinal) {
                *device = ordinal;
                return 0;
              },
          .device_primary_context_retain = device_primary_context_retain,
          .context_push_current = context_push_current,
          .context_pop_current = context_pop_current};
}

}  // namespace xoe::testing
