// Worker processes with kernels in C++, the tasks on them, and the memory of chips.
#ifndef BUFABI_WORKERS_HPP
#define BUFABI_WORKERS_HPP

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "memory.hpp"
#include "task.hpp"

namespace bufabi {

/// A worker to be started; `parent` is the place of the host worker that it is below.
inline bufabi_worker_t worker(std::string_view name, WorkerKind kind, std::int32_t parent = -1) noexcept {
    bufabi_worker_t worker{};
    // One that does not fit stays without its end, and is refused.
    std::memcpy(worker.name, name.data(), name.size() < sizeof worker.name ? name.size() : sizeof worker.name);
    worker.kind = static_cast<std::int32_t>(kind);
    worker.parent = parent;
    return worker;
}

/// One argument of a kernel.
class Operand : public bufabi_operand_t {
  public:
    /// The first element, if the operand has that size of elements, and grants writing unless they are const; else nullptr.
    template <typename T>
    T *elements() const noexcept {
        std::uint32_t size = 0;
        const auto tag = std::is_const_v<T> ? Tag::input : Tag::output;
        const bool fits = bufabi_dtype_size(view.dtype, &size) == BUFABI_STATUS_OK && size == sizeof(T) &&
                          bufabi_rights_check(access, static_cast<std::int32_t>(tag)) == BUFABI_STATUS_OK;
        return fits ? static_cast<T *>(data) : nullptr;
    }
    Span<const std::uint32_t> shape() const noexcept { return {view.shapes, view.ndims}; }
    /// In elements.
    Span<const std::uint32_t> strides() const noexcept { return {view.strides, view.ndims}; }
};
static_assert(sizeof(Operand) == sizeof(bufabi_operand_t), "an array of one is an array of the other");

/// Runs a kernel, in a worker's process: 0, or a status or any other number that says why not. What it throws fails the task.
using Kernels =
    std::function<bufabi_status_t(std::uint32_t kernel, Span<const Operand> operands, Span<const std::uint64_t> scalars)>;

namespace detail {

inline bufabi_status_t run_kernel(void *context, std::uint32_t kernel, const bufabi_operand_t *operands,
                                  std::size_t operand_count, const std::uint64_t *scalars, std::size_t scalar_count) {
#if defined(__cpp_exceptions)
    try {
#endif
        return (*static_cast<const Kernels *>(context))(kernel, {static_cast<const Operand *>(operands), operand_count},
                                                        {scalars, scalar_count});
#if defined(__cpp_exceptions)
    } catch (const Error &error) {
        return error.status();
    } catch (...) {
        return BUFABI_STATUS_KERNEL_FAILED;
    }
#endif
}

} // namespace detail

/// The number of this library's kernel of that name.
inline Result<std::uint32_t> kernel_number(std::string_view name, bool accumulate = false) {
    std::uint32_t kernel = 0;
    const auto status = bufabi_kernel_number(name.data(), name.size(), accumulate, &kernel);
    return {status, kernel};
}

/// Memory of a chip: a name, which frees nothing by itself.
struct DeviceMemory {
    std::uint32_t worker;
    Descriptor descriptor;

    Result<Tensor> tensor(const View &view) const { return encode(descriptor, view); }
    Result<Tensor> row_major(DType dtype, Span<const std::uint32_t> shape, std::uint64_t byte_offset = 0) const {
        const auto view = bufabi::row_major(dtype, shape, byte_offset);
        return view ? tensor(view.value()) : Result<Tensor>(view.status(), {});
    }
};

/// Windows of several chips, with buffers at the same places. It is freed by its orchestrator.
struct Domain {
    bufabi_domain_t handle;
    /// Chip by chip, each in the order of the parts.
    std::vector<Descriptor> descriptors;
};

/// Worker processes, and the tasks that run on them.
class Orchestrator : public Handle<bufabi_orchestrator_t, bufabi_orchestrator_release> {
  public:
    using Handle::Handle;

    /// Starts the workers, while this process has one thread. Without kernels they run those of this library.
    static Result<Orchestrator> create(const Endpoint &endpoint, Span<const bufabi_worker_t> workers,
                                       const Kernels &kernels = {}) {
        bufabi_orchestrator_t orchestrator{0};
        // Each worker has a copy of all, the kernels too.
        auto *context = const_cast<void *>(static_cast<const void *>(&kernels));
        const auto status = bufabi_orchestrator_create(endpoint.raw(), workers.data(), workers.size(),
                                                       kernels ? detail::run_kernel : nullptr, context, UINT64_MAX,
                                                       &orchestrator);
        return {status, Orchestrator(orchestrator)};
    }

    /// The worker of that path, as "l3/chip1".
    Result<std::uint32_t> find(std::string_view path) const {
        std::uint32_t worker = 0;
        const auto status = bufabi_orchestrator_find(raw(), path.data(), path.size(), &worker);
        return {status, worker};
    }

    Result<std::int32_t> pid(std::uint32_t worker) const {
        std::int32_t pid = 0;
        const auto status = bufabi_orchestrator_pid(raw(), worker, &pid);
        return {status, pid};
    }

    /// The next task of the sequence; its place in the order of all.
    Result<std::uint64_t> submit(std::uint32_t worker, std::uint32_t kernel, const TaskArgs &arguments) const {
        const bufabi_member_t member{arguments.raw(), worker, kernel};
        return submit_group({&member, 1});
    }

    /// The same for a group, whose members are one task.
    Result<std::uint64_t> submit_group(Span<const bufabi_member_t> members) const {
        std::uint64_t task = 0;
        const auto status = bufabi_orchestrator_submit(raw(), members.data(), members.size(), &task);
        return {status, task};
    }

    /// The next task that is over. That it failed is in its status.
    Result<bufabi_finished_t> wait(std::chrono::nanoseconds limit) const {
        bufabi_finished_t finished{};
        const auto status = bufabi_orchestrator_wait(raw(), detail::count(limit), &finished);
        return {status, finished};
    }

    /// Waits for all tasks of the run, and forgets what failed: the status of the first failure, or 0.
    Result<bufabi_status_t> end_run(std::chrono::nanoseconds limit) const {
        bufabi_status_t failure = 0;
        const auto status = bufabi_orchestrator_end_run(raw(), detail::count(limit), &failure);
        return {status, failure};
    }

    /// Has every worker drop what it mapped of an identity that was released; how many may still have it.
    Result<std::size_t> release_imports(const Identity &identity, std::chrono::nanoseconds limit) const {
        std::size_t kept = 0;
        const auto status = bufabi_orchestrator_release_imports(raw(), &identity, detail::count(limit), nullptr, 0, &kept);
        return {status, kept};
    }

    /// Memory of a chip; its content is whatever lies there.
    Result<DeviceMemory> malloc(std::uint32_t worker, std::uint64_t nbytes, Access access,
                                std::chrono::nanoseconds limit) const {
        DeviceMemory memory{worker, {}};
        const auto status = bufabi_device_malloc(raw(), worker, nbytes, static_cast<std::int32_t>(access),
                                                 detail::count(limit), &memory.descriptor);
        return {status, memory};
    }

    /// Memory of a chip, zero, that others import by handle.
    Result<DeviceMemory> create_shareable(std::uint32_t worker, std::uint64_t nbytes, Access access,
                                          Admission admission, std::chrono::nanoseconds limit) const {
        DeviceMemory memory{worker, {}};
        const auto status =
            bufabi_device_create_shareable(raw(), worker, nbytes, static_cast<std::int32_t>(access),
                                           static_cast<std::int32_t>(admission), detail::count(limit), &memory.descriptor);
        return {status, memory};
    }

    /// Lets workers import it.
    Result<void> permit(const DeviceMemory &memory, Span<const std::uint32_t> leaves,
                        std::chrono::nanoseconds limit) const {
        return Result<void>(bufabi_device_permit(raw(), memory.worker, &memory.descriptor, leaves.data(), leaves.size(),
                                                 detail::count(limit)));
    }

    /// Frees it; how many workers may still have it mapped.
    Result<std::size_t> free(const DeviceMemory &memory, std::chrono::nanoseconds limit) const {
        std::size_t kept = 0;
        const auto status = bufabi_device_free(raw(), memory.worker, &memory.descriptor.identity, detail::count(limit), &kept);
        return {status, kept};
    }

    Result<void> copy_to(const DeviceMemory &memory, std::uint64_t offset, Span<const std::uint8_t> bytes,
                         std::chrono::nanoseconds limit) const {
        return Result<void>(bufabi_device_copy_to(raw(), memory.worker, &memory.descriptor.identity, offset, bytes.data(),
                                                  bytes.size(), detail::count(limit)));
    }

    Result<void> copy_from(const DeviceMemory &memory, std::uint64_t offset, Span<std::uint8_t> out,
                           std::chrono::nanoseconds limit) const {
        return Result<void>(bufabi_device_copy_from(raw(), memory.worker, &memory.descriptor.identity, offset, out.data(),
                                                    out.size(), detail::count(limit)));
    }

    /// Windows of several chips.
    Result<Domain> create_domain(Span<const std::uint32_t> chips, Span<const bufabi_window_part_t> parts,
                                 std::chrono::nanoseconds limit) const {
        Domain domain{{0}, std::vector<Descriptor>(chips.size() * parts.size())};
        const auto status =
            bufabi_domain_create(raw(), chips.data(), chips.size(), parts.data(), parts.size(), detail::count(limit),
                                 domain.descriptors.data(), domain.descriptors.size(), &domain.handle);
        return {status, std::move(domain)};
    }

    Result<void> free_domain(const Domain &domain, std::chrono::nanoseconds limit) const {
        return Result<void>(bufabi_domain_free(raw(), domain.handle, detail::count(limit)));
    }
};

} // namespace bufabi

#endif // BUFABI_WORKERS_HPP
