// A task's arguments, and which tasks must wait for which.
#ifndef BUFABI_TASK_HPP
#define BUFABI_TASK_HPP

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "record.hpp"

namespace bufabi {

/// A task's arguments: tensors with tags, then scalars.
class TaskArgs : public Handle<bufabi_task_args_t, bufabi_task_args_release> {
  public:
    using Handle::Handle;

    static Result<TaskArgs> create() {
        bufabi_task_args_t arguments{0};
        const auto status = bufabi_task_args_create(&arguments);
        return {status, TaskArgs(arguments)};
    }

    Result<void> add(const Tensor &tensor, Tag tag) const {
        std::uint32_t index = 0;
        return Result<void>(bufabi_task_args_add_tensor(raw(), &tensor, static_cast<std::int32_t>(tag), &index));
    }

    Result<void> add(std::uint64_t scalar) const {
        std::uint32_t index = 0;
        return Result<void>(bufabi_task_args_add_scalar(raw(), scalar, &index));
    }

    Result<void> set_tag(std::uint32_t index, Tag tag) const {
        return Result<void>(bufabi_task_args_set_tag(raw(), index, static_cast<std::int32_t>(tag)));
    }

    Result<void> clear() const { return Result<void>(bufabi_task_args_clear(raw())); }

    /// As a submit does.
    Result<void> check() const {
        bufabi_argument_fault_t fault{};
        return Result<void>(bufabi_task_args_check(raw(), &fault));
    }

    /// Their blob, if they pass the check.
    Result<std::vector<std::uint8_t>> encode() const {
        std::size_t tensors = 0, scalars = 0, nbytes = 0;
        std::vector<std::uint8_t> blob;
        auto status = bufabi_task_args_count(raw(), &tensors, &scalars);
        if (status == BUFABI_STATUS_OK) status = bufabi_blob_size(tensors, scalars, &nbytes);
        if (status == BUFABI_STATUS_OK) {
            blob.resize(nbytes);
            status = bufabi_task_args_encode(raw(), blob.data(), blob.size(), &nbytes);
        }
        return {status, std::move(blob)};
    }
};

/// A task that a tracker has taken.
struct Submitted {
    bufabi_task_state_t state;
    std::vector<Edge> edges;
};

/// Which tasks must wait for which.
class Tracker : public Handle<bufabi_tracker_t, bufabi_tracker_release> {
  public:
    using Handle::Handle;

    static Result<Tracker> create(const bufabi_tracker_capacities_t &capacities, Policy policy = Policy::full) {
        bufabi_tracker_t tracker{0};
        const auto status = bufabi_tracker_create(&capacities, static_cast<std::int32_t>(policy), &tracker);
        return {status, Tracker(tracker)};
    }

    /// For so many tasks that are not finished, at once.
    static Result<Tracker> create(std::uint32_t tasks, Policy policy = Policy::full) {
        bufabi_tracker_capacities_t capacities{};
        capacities.tasks = tasks;
        return create(capacities, policy);
    }

    /// The next task of the sequence.
    Result<Submitted> submit(std::uint64_t task, const TaskArgs &arguments) const {
        const bufabi_task_args_t member = arguments.raw();
        return submit_group(task, Span<const bufabi_task_args_t>(&member, 1));
    }

    /// The same for a group, whose members are one task.
    Result<Submitted> submit_group(std::uint64_t task, Span<const bufabi_task_args_t> members) const {
        Submitted submitted{};
        // Edges are fewer than the usual capacity, nearly always by far.
        submitted.edges.resize(edge_capacity);
        std::size_t count = 0;
        const auto status = bufabi_tracker_submit(raw(), task, members.data(), members.size(), submitted.edges.data(),
                                                  submitted.edges.size(), &count, &submitted.state);
        submitted.edges.resize(count < edge_capacity ? count : edge_capacity);
        return {status, std::move(submitted)};
    }

    /// Those that wait for none any more.
    Result<std::vector<bufabi_task_state_t>> finish(bufabi_tracked_task_t task) const {
        std::vector<bufabi_task_state_t> ready(task_count());
        std::size_t count = 0;
        const auto status = bufabi_tracker_finish(raw(), task, ready.data(), ready.size(), &count);
        ready.resize(count < ready.size() ? count : ready.size());
        return {status, std::move(ready)};
    }

    /// Those that are poisoned by it.
    Result<std::vector<bufabi_task_state_t>> fail(bufabi_tracked_task_t task, std::uint64_t reason) const {
        std::vector<bufabi_task_state_t> poisoned(task_count());
        std::size_t count = 0;
        const auto status = bufabi_tracker_fail(raw(), task, reason, poisoned.data(), poisoned.size(), &count);
        poisoned.resize(count < poisoned.size() ? count : poisoned.size());
        return {status, std::move(poisoned)};
    }

    Result<bufabi_task_state_t> state(bufabi_tracked_task_t task) const {
        bufabi_task_state_t state{};
        const auto status = bufabi_tracker_state(raw(), task, &state);
        return {status, state};
    }

    Result<void> forget(const Identity &identity) const {
        return Result<void>(bufabi_tracker_forget(raw(), &identity));
    }

  private:
    static constexpr std::size_t edge_capacity = 1024;

    /// No more than these can be ready or poisoned at once.
    std::size_t task_count() const noexcept {
        std::uint32_t tasks = 0;
        std::uint64_t inexact = 0;
        return bufabi_tracker_count(raw(), &tasks, &inexact) == BUFABI_STATUS_OK ? tasks : 0;
    }
};

} // namespace bufabi

#endif // BUFABI_TASK_HPP
