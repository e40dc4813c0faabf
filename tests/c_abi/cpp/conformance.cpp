// The host library from C++: objects that release themselves, and results that are looked at or thrown. Run with a memory checker on it.
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <bufabi/bufabi.hpp>

namespace {

using namespace std::chrono_literals;

int checks, failures;

void check(bool holds, const char *what, int line) {
    ++checks;
    if (holds) return;
    ++failures;
    std::fprintf(stderr, "line %d: %s does not hold; the last refusal: %s\n", line, what,
                 bufabi::detail::error_text().c_str());
}

#define CHECK(condition) check((condition), #condition, __LINE__)
#define REFUSED(code, call) check((call).status() == BUFABI_STATUS_##code, #call " is " #code, __LINE__)

// What the call throws; 0 when it throws nothing.
template <typename Call>
bufabi_status_t thrown(Call call) {
    try {
        call();
    } catch (const bufabi::Error &error) {
        CHECK(std::strlen(error.what()) > 0 && std::strcmp(error.name(), bufabi_status_name(error.status())) == 0);
        return error.status();
    }
    return BUFABI_STATUS_OK;
}

static_assert(!std::is_copy_constructible_v<bufabi::Buffer> && std::is_nothrow_move_constructible_v<bufabi::Buffer>);
static_assert(std::is_nothrow_move_assignable_v<bufabi::Tracker> && !std::is_copy_assignable_v<bufabi::Tracker>);
static_assert(std::is_convertible_v<std::vector<std::uint8_t>, bufabi::Span<const std::uint8_t>>);

void results() {
    const auto endpoint = bufabi::Endpoint::create().value();
    const auto refused = endpoint.create_buffer(0);
    CHECK(!refused && refused.status() == BUFABI_STATUS_NBYTES_ZERO && std::string(refused.name()) == "nbytes_zero");
    CHECK(refused.text().find("buffer_create: ") == 0);
    CHECK(thrown([&] { (void)refused.value(); }) == BUFABI_STATUS_NBYTES_ZERO);
    CHECK(thrown([&] { (void)endpoint.create_buffer(0).value(); }) == BUFABI_STATUS_NBYTES_ZERO);
    CHECK(thrown([&] { bufabi::check_rights(bufabi::Access::read, bufabi::Tag::inout).value(); }) == BUFABI_STATUS_DENIED);
    CHECK(thrown([&] { bufabi::check_rights(bufabi::Access::read, bufabi::Tag::input).value(); }) == BUFABI_STATUS_OK);
    CHECK(std::string(bufabi::Error(BUFABI_STATUS_NO_SPACE, "").fault()) == "machine");
    CHECK(bufabi::is_compatible());
}

void objects_release_themselves() {
    auto endpoint = bufabi::Endpoint::create(4).value();
    bufabi_buffer_t raw{0};
    {
        auto buffer = endpoint.create_buffer(64).value();
        raw = buffer.raw();
        bufabi::Buffer moved = std::move(buffer);
        CHECK(!buffer && moved.raw().token == raw.token);
        REFUSED(HANDLE_UNKNOWN, buffer.descriptor());
        CHECK(endpoint.live().value() == 1);
        auto other = endpoint.create_buffer(64).value();
        CHECK(endpoint.live().value() == 2);
        other = std::move(moved);
        CHECK(endpoint.live().value() == 1 && other.raw().token == raw.token);
    }
    CHECK(endpoint.live().value() == 0);
    CHECK(bufabi_buffer_abandon(raw) == BUFABI_STATUS_HANDLE_RELEASED);
    auto buffer = endpoint.create_buffer(64).value();
    buffer.release().value();
    CHECK(!buffer);
    REFUSED(HANDLE_UNKNOWN, buffer.release());
    // An endpoint lives on in its buffers.
    buffer = endpoint.create_buffer(64).value();
    endpoint = bufabi::Endpoint();
    CHECK(buffer.row_major(bufabi::DType::uint8, {64}).value().shapes[0] == 64);
    buffer.release().value();
}

void records() {
    bufabi::DescriptorFields fields{};
    fields.identity.buffer_id = 3;
    fields.identity.generation = 1;
    fields.nbytes = 1024;
    fields.access = 2;
    fields.backend_kind = 1;
    std::strcpy(fields.shm_name, "object");
    const auto descriptor = bufabi::encode(fields).value();
    const auto back = bufabi::decode(descriptor).value();
    CHECK(std::memcmp(&fields, &back, sizeof fields) == 0);
    const auto view = bufabi::strided(bufabi::DType::float32, {8, 4}, {16, 1}, 32);
    const auto tensor = bufabi::encode(descriptor, view).value();
    const auto [part, same] = bufabi::decode(tensor).value();
    CHECK(std::memcmp(&part, &descriptor, sizeof part) == 0 && std::memcmp(&same, &view, sizeof view) == 0);
    REFUSED(NDIMS, bufabi::encode(descriptor, bufabi::strided(bufabi::DType::int8, {8, 4}, {16})));
    REFUSED(NDIMS, bufabi::row_major(bufabi::DType::int8, {1, 1, 1, 1, 1, 1}));
    REFUSED(SHAPE_ZERO, bufabi::row_major(bufabi::DType::int8, {1, 0}));
    REFUSED(DTYPE, bufabi::row_major(static_cast<bufabi::DType>(15), {1}));
    CHECK(bufabi::relate(tensor, tensor).value() == bufabi::Relation::covering);
    const std::vector<bufabi::Tensor> tensors{tensor, tensor};
    const auto blob = bufabi::encode(tensors, {1, 2, 3}).value();
    const auto contents = bufabi::decode_blob(blob).value();
    CHECK(contents.tensors.size() == 2 && contents.scalars == (std::vector<std::uint64_t>{1, 2, 3}));
    CHECK(std::memcmp(contents.tensors.data(), tensors.data(), 2 * sizeof tensor) == 0);
    REFUSED(PAST_END, bufabi::decode_blob({blob.data(), blob.size() - 1}));
    REFUSED(NULL_POINTER, bufabi::decode_blob({}));
    auto padded = fields.identity;
    padded.padding[0] = 1;
    CHECK(bufabi::are_equal(padded, fields.identity));
}

void arguments_and_dependencies() {
    const auto endpoint = bufabi::Endpoint::create().value();
    const auto buffer = endpoint.create_buffer(4096).value();
    const auto rows = [&](std::uint64_t first, std::uint32_t count) {
        return buffer.row_major(bufabi::DType::float32, {count, 16}, first * 64).value();
    };
    const auto writes = bufabi::TaskArgs::create().value(), reads = bufabi::TaskArgs::create().value();
    writes.add(rows(0, 8), bufabi::Tag::output).value();
    reads.add(rows(4, 8), bufabi::Tag::input).value();
    reads.add(7).value();
    REFUSED(TENSOR_AFTER_SCALAR, reads.add(rows(0, 1), bufabi::Tag::input));
    writes.add(rows(7, 2), bufabi::Tag::input).value();
    REFUSED(ARGUMENT_CLASH, writes.check());
    REFUSED(ARGUMENT_CLASH, writes.encode());
    writes.set_tag(1, bufabi::Tag::no_dep).value();
    CHECK(writes.encode().value().size() == 8 + 2 * 144);

    const auto tracker = bufabi::Tracker::create(16).value();
    const auto first = tracker.submit(1, writes).value();
    const auto second = tracker.submit(2, reads).value();
    const auto third = tracker.submit(3, writes).value();
    CHECK(first.edges.empty() && second.edges.size() == 1 && third.edges.size() == 2);
    CHECK(second.edges[0].byte == 256 && second.edges[0].argument == 0);
    CHECK(tracker.fail(first.state.handle, 5).value().size() == 2);
    CHECK(tracker.state(third.state.handle).value().cause_task == 1);
    const auto ready = tracker.finish(first.state.handle).value();
    CHECK(ready.size() == 1 && ready[0].task == 2 && ready[0].is_poisoned == 1 && ready[0].cause_reason == 5);
    REFUSED(NOT_TRACKED, tracker.finish(first.state.handle));
    const auto producers = bufabi::Tracker::create(16, bufabi::Policy::producers).value();
    producers.submit(1, reads).value();
    CHECK(producers.submit(2, writes).value().edges.empty());
    REFUSED(OPTION_UNKNOWN, bufabi::Tracker::create(16, static_cast<bufabi::Policy>(7)));
}

void owners_and_consumers() {
    const auto endpoint = bufabi::Endpoint::create().value();
    auto buffer = endpoint.create_buffer(400, bufabi::Access::read).value();
    const auto descriptor = buffer.descriptor().value();
    const auto consumer = bufabi::Consumer::create().value(), kin = bufabi::Consumer::create(&endpoint).value();
    {
        const auto own = buffer.map().value();
        auto numbers = own.elements<float>().value();
        CHECK(numbers.size() == 100);
        for (auto &number : numbers) number = 1.5F;
        const auto imported = consumer.import(descriptor).value();
        CHECK(imported.resolution == bufabi::Resolution::mapped_now);
        CHECK(imported.mapping.elements<const float>().value()[99] == 1.5F);
        REFUSED(DENIED, imported.mapping.elements<float>());
        CHECK(kin.import(descriptor).value().resolution == bufabi::Resolution::own);
        REFUSED(VIEWS_ALIVE, buffer.release());
        CHECK(buffer && consumer.counters().value().live == 1);
        REFUSED(VIEWS_ALIVE, consumer.forget(descriptor.identity));
        std::vector<std::uint8_t> bytes(4);
        imported.mapping.read(396, bytes).value();
        CHECK(bytes == (std::vector<std::uint8_t>{0, 0, 0xc0, 0x3f}));
        REFUSED(ADDRESS_NOT_MAPPED, imported.mapping.read(397, bytes));
    }
    const auto tensor = buffer.row_major(bufabi::DType::float32, {100}).value();
    auto hold = endpoint.hold({tensor}).value();
    REFUSED(BUSY, buffer.release());
    // Somebody else sees to it that the task finishes.
    std::thread finishes([&hold] { bufabi::Hold(std::move(hold)); });
    buffer.release_when_idle(10s).value();
    finishes.join();
    CHECK(endpoint.live().value() == 0);
    consumer.forget(descriptor.identity).value();
    REFUSED(SHM_NOT_FOUND, consumer.import(descriptor));
    REFUSED(STALE, kin.import(descriptor));
    consumer.close().value();
    REFUSED(RELEASED, consumer.import(descriptor));
}

void shared_device_memory() {
    const auto endpoint = bufabi::Endpoint::create().value(), other = bufabi::Endpoint::create().value();
    const auto vmm = bufabi::Vmm::create(endpoint, 1).value(), elsewhere = bufabi::Vmm::create(other, 2, 10s).value();
    vmm.serve().value();
    const auto buffer = endpoint.create_shareable(vmm, 100, bufabi::Access::read_write, bufabi::Admission::anyone).value();
    const auto consumer = bufabi::Consumer::create(&other, &elsewhere).value();
    const auto imported = consumer.import(buffer.descriptor().value()).value();
    imported.mapping.elements<std::uint8_t>().value()[99] = 9;
    CHECK(buffer.map().value().elements<const std::uint8_t>().value()[99] == 9);
    auto wrapped = other.wrap_vmm_shareable(buffer.descriptor().value()).value();
    CHECK(wrapped.row_major(bufabi::DType::int8, {100}).value().buffer.identity.buffer_id == 1);
    wrapped.release().value();
}

void worker_processes() {
    const auto endpoint = bufabi::Endpoint::create().value();
    const auto heap = bufabi::Heap::create(endpoint, 1 << 16).value();
    std::vector<float> table(16, 2.5F);
    const auto inherited =
        bufabi::Inherited::from(endpoint, table.data(), table.size() * sizeof(float), bufabi::Sharing::copied).value();
    const auto copy = endpoint.wrap_fork_inherited(inherited, 0, 64, bufabi::Access::read).value();
    int factor = 2;
    const bufabi::Kernels kernels = [&factor](std::uint32_t kernel, auto operands, auto scalars) -> bufabi_status_t {
        if (kernel == 1) throw std::string("anything");
        if (kernel == 2) bufabi::check_rights(bufabi::Access::read, bufabi::Tag::output).value();
        const auto *in = operands[0].template elements<const float>();
        auto *out = operands[1].template elements<float>();
        if (!in || !out || operands[1].template elements<double>()) return 7;
        // What grants no writing is no place to write to.
        if ((kernel == 0) == (operands[0].template elements<float>() != nullptr)) return 8;
        for (std::size_t i = 0; i < operands[0].shape()[0]; ++i)
            out[i] = in[i] * static_cast<float>(factor) + static_cast<float>(scalars[0]);
        return 0;
    };
    const bufabi_worker_t workers[] = {bufabi::worker("l3", bufabi::WorkerKind::host),
                                       bufabi::worker("sub", bufabi::WorkerKind::sub, 0),
                                       bufabi::worker("staged", bufabi::WorkerKind::staged_chip)};
    const auto orchestrator = bufabi::Orchestrator::create(endpoint, workers, kernels).value();
    // What happens from here on happens in this process alone.
    factor = 100;
    table.assign(16, 0.0F);
    REFUSED(TEXT_BROKEN, bufabi::Orchestrator::create(endpoint, {bufabi::worker(std::string(56, 'x'), bufabi::WorkerKind::sub)}));

    const auto sub = orchestrator.find("l3/sub").value();
    auto out = heap.alloc_shared(bufabi::DType::float32, {16}).value();
    CHECK(heap.live().value() == 1 && orchestrator.pid(sub).value() > 0);
    const auto arguments = bufabi::TaskArgs::create().value();
    arguments.add(copy.row_major(bufabi::DType::float32, {16}).value(), bufabi::Tag::input).value();
    arguments.add(out.row_major(bufabi::DType::float32, {16}).value(), bufabi::Tag::output).value();
    arguments.add(3).value();
    orchestrator.submit(sub, 0, arguments).value();
    const auto done = orchestrator.wait(20s).value();
    CHECK(done.status == 0 && done.resolutions[0] == BUFABI_RESOLUTION_INHERITED && done.hops == 1);
    CHECK(out.map().value().elements<const float>().value()[15] == 8.0F);
    orchestrator.submit(sub, 1, arguments).value();
    CHECK(orchestrator.wait(20s).value().status == BUFABI_STATUS_KERNEL_FAILED);
    orchestrator.submit(sub, 2, arguments).value();
    CHECK(orchestrator.wait(20s).value().is_poisoned == 1);
    CHECK(orchestrator.end_run(20s).value() == BUFABI_STATUS_KERNEL_FAILED);
    orchestrator.submit(sub, 2, arguments).value();
    CHECK(orchestrator.wait(20s).value().status == BUFABI_STATUS_DENIED);
    REFUSED(WORKER_IDLE, orchestrator.wait(0s));

    // A chip with memory of its own, which does not reach this machine's: what lies there is copied, once each way.
    CHECK(orchestrator.end_run(20s).value() == BUFABI_STATUS_DENIED);
    const auto chip = orchestrator.find("staged").value();
    const auto memory = orchestrator.malloc(chip, 64, bufabi::Access::read, 20s).value();
    REFUSED(DENIED, orchestrator.copy_to(memory, 0, {1, 2, 3}, 20s));
    orchestrator.free(memory, 20s).value();
    const auto device = orchestrator.malloc(chip, 64, bufabi::Access::read_write, 20s).value();
    std::vector<std::uint8_t> bytes(64, 0);
    orchestrator.copy_to(device, 0, bytes, 20s).value();
    arguments.clear().value();
    arguments.add(device.row_major(bufabi::DType::float32, {16}).value(), bufabi::Tag::input).value();
    arguments.add(out.row_major(bufabi::DType::float32, {16}).value(), bufabi::Tag::output).value();
    arguments.add(9).value();
    orchestrator.submit(chip, 3, arguments).value();
    const auto staged = orchestrator.wait(20s).value();
    CHECK(staged.status == 0 && staged.bytes_copied > 0);
    CHECK(out.map().value().elements<const float>().value()[3] == 9.0F);
    orchestrator.copy_from(device, 0, bytes, 20s).value();
    CHECK(orchestrator.free(device, 20s).value() == 0);
    REFUSED(STALE, orchestrator.copy_from(device, 0, bytes, 20s));
    const std::vector<bufabi_window_part_t> parts{{64, 2, 0}, {32, 0, 0}};
    const auto domain = orchestrator.create_domain({chip}, parts, 20s).value();
    CHECK(domain.descriptors.size() == 2 && domain.descriptors[1].nbytes == 32);
    orchestrator.free_domain(domain, 20s).value();
    REFUSED(HANDLE_RELEASED, orchestrator.free_domain(domain, 20s));

    const auto identity = out.descriptor().value().identity;
    out.release().value();
    CHECK(orchestrator.release_imports(identity, 20s).value() == 0 && heap.live().value() == 0);
}

void regions_and_queues() {
    const auto endpoint = bufabi::Endpoint::create().value();
    const auto [payload, counter] = bufabi::Queue::bytes(4, 128, 192).value();
    CHECK(payload == 576 && counter == 384);
    REFUSED(QUEUE_DEPTH, bufabi::Queue::bytes(3, 128, 192));
    auto region = bufabi::Region::create(endpoint, payload, counter).value();
    CHECK(endpoint.live().value() == 2 && region.scalars().value()[2] != 0);
    const auto [first, second] = region.descriptors().value();
    CHECK(second.identity.buffer_id == first.identity.buffer_id + 1);
    {
        const auto queue = bufabi::Queue::attach(region, 4, 128, 192).value();
        const std::vector<std::uint8_t> bytes{1, 2, 3};
        queue.enqueue(bytes, 0s).value();
        REFUSED(MESSAGE_TOO_LARGE, queue.enqueue(std::vector<std::uint8_t>(129), 0s));
        REFUSED(TIMED_OUT, queue.dequeue(0s));
        // What the task sees, at the addresses of this process.
        const auto six = region.scalars().value();
        CHECK(bufabi::Queue::scalars(six, 4, 128, 192).value()[7] == 4);
        auto *const slots = reinterpret_cast<std::uint64_t *>(static_cast<std::uintptr_t>(six[2]));
        auto *const counters = reinterpret_cast<std::uint32_t *>(static_cast<std::uintptr_t>(six[4]));
        const auto dropped = queue.reserve(8, 0s).value();
        REFUSED(QUEUE_RESERVED, queue.reserve(8, 0s));
        queue.cancel(dropped).value();
        const auto reservation = queue.reserve(8, 0s).value();
        CHECK(bufabi::mapped(reservation).size() == 8);
        bufabi::mapped(reservation)[0] = 7;
        queue.write(reservation, 1, bytes).value();
        queue.commit(reservation, 4, bufabi::MessageKind::error).value();
        CHECK(counters[0] == 2 && slots[5] == 3 && slots[7] == 4);
        const auto *const sent = reinterpret_cast<const std::uint8_t *>(slots) + slots[6];
        CHECK(sent[0] == 7 && sent[1] == 1 && sent[3] == 3);
        // Two outputs of one byte, as the task writes them.
        for (std::uint64_t index = 0; index < 2; ++index) {
            auto *const slot = slots + 16 + 4 * index;
            slot[1] = 1, slot[2] = 384 + index, slot[3] = 1, slot[0] = index + 1;
            reinterpret_cast<std::uint8_t *>(slots)[384 + index] = static_cast<std::uint8_t>(5 + index);
        }
        __atomic_store_n(&counters[32], 2U, __ATOMIC_RELEASE);
        const auto output = queue.peek(1s).value();
        CHECK(bufabi::mapped(output).size() == 1 && bufabi::mapped(output)[0] == 5);
        std::uint8_t copy[2] = {};
        CHECK(queue.read(output, copy).value() == 1 && copy[0] == 5);
        queue.release(output).value();
        const auto second_output = queue.dequeue(1s).value();
        CHECK(second_output.opcode == 1 && second_output.bytes == std::vector<std::uint8_t>{6});
        CHECK(!queue.peer_aborted().value());
        queue.request_stop(0s).value();
        REFUSED(QUEUE_STOPPED, queue.enqueue(bytes, 0s));
        queue.poison().value();
        queue.abort().value();
        REFUSED(QUEUE_ABORTED, queue.dequeue(0s));
    }
    region.release(1s).value();
    REFUSED(HANDLE_UNKNOWN, region.descriptors());
    CHECK(endpoint.live().value() == 0);
}

} // namespace

int main(int argc, char **argv) {
    results();
    objects_release_themselves();
    records();
    arguments_and_dependencies();
    // Some checkers of memory do not know what workers are watched by. They are started while there is one thread.
    if (argc < 2 || std::string(argv[1]) != "without-process-descriptors") worker_processes();
    owners_and_consumers();
    shared_device_memory();
    regions_and_queues();
    std::printf("%d checks, %d failures\n", checks, failures);
    return failures != 0;
}
