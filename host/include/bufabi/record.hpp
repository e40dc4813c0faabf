// The records of the wire, made of what they say and taken apart again, and what follows from them alone.
#ifndef BUFABI_RECORD_HPP
#define BUFABI_RECORD_HPP

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "result.hpp"

namespace bufabi {

/// They name one allocation; padding takes no part.
inline bool are_equal(const Identity &a, const Identity &b) noexcept {
    std::int32_t equal = 0;
    return bufabi_identity_equal(&a, &b, &equal) == BUFABI_STATUS_OK && equal != 0;
}

/// A dense row-major view.
inline Result<View> row_major(DType dtype, Span<const std::uint32_t> shape, std::uint64_t byte_offset = 0) {
    View view{};
    const auto ndims = shape.size() > 5 ? 6U : static_cast<std::uint32_t>(shape.size());
    const auto status =
        bufabi_view_row_major(byte_offset, static_cast<std::int32_t>(dtype), shape.data(), ndims, &view);
    return {status, view};
}

/// A view of these strides, in elements. Whether it is legal is seen where it is used.
inline View strided(DType dtype, Span<const std::uint32_t> shape, Span<const std::uint32_t> strides,
                    std::uint64_t byte_offset = 0) noexcept {
    View view{};
    view.byte_offset = byte_offset;
    view.dtype = static_cast<std::int32_t>(dtype);
    // Unlike numbers, or too many of them, are no rank.
    view.ndims = shape.size() == strides.size() && shape.size() <= 5 ? static_cast<std::uint32_t>(shape.size()) : 0;
    for (std::size_t dim = 0; dim < view.ndims; ++dim) {
        view.shapes[dim] = shape[dim];
        view.strides[dim] = strides[dim];
    }
    return view;
}

inline Result<Descriptor> encode(const DescriptorFields &fields) {
    Descriptor descriptor{};
    const auto status = bufabi_descriptor_encode(&fields, &descriptor);
    return {status, descriptor};
}

inline Result<DescriptorFields> decode(const Descriptor &descriptor) {
    DescriptorFields fields{};
    const auto status = bufabi_descriptor_decode(&descriptor, sizeof descriptor, &fields);
    return {status, fields};
}

inline Result<Tensor> encode(const Descriptor &descriptor, const View &view) {
    Tensor tensor{};
    const auto status = bufabi_tensor_encode(&descriptor, &view, &tensor);
    return {status, tensor};
}

inline Result<std::pair<Descriptor, View>> decode(const Tensor &tensor) {
    std::pair<Descriptor, View> parts{};
    const auto status = bufabi_tensor_decode(&tensor, sizeof tensor, &parts.first, &parts.second);
    return {status, parts};
}

/// What a blob holds.
struct BlobContents {
    std::vector<Tensor> tensors;
    std::vector<std::uint64_t> scalars;
};

inline Result<std::vector<std::uint8_t>> encode(Span<const Tensor> tensors, Span<const std::uint64_t> scalars) {
    std::size_t nbytes = 0;
    auto status = bufabi_blob_size(tensors.size(), scalars.size(), &nbytes);
    std::vector<std::uint8_t> blob(nbytes);
    if (status == BUFABI_STATUS_OK) {
        status = bufabi_blob_encode(tensors.data(), tensors.size(), scalars.data(), scalars.size(), blob.data(),
                                    blob.size(), &nbytes);
    }
    return {status, std::move(blob)};
}

inline Result<BlobContents> decode_blob(Span<const std::uint8_t> bytes) {
    BlobContents contents;
    std::int32_t tensor_count = 0, scalar_count = 0;
    auto status = bufabi_blob_check(bytes.data(), bytes.size(), &tensor_count, &scalar_count);
    if (status == BUFABI_STATUS_OK) {
        contents.tensors.resize(static_cast<std::size_t>(tensor_count));
        contents.scalars.resize(static_cast<std::size_t>(scalar_count));
        std::size_t tensors = 0, scalars = 0;
        status = bufabi_blob_decode(bytes.data(), bytes.size(), contents.tensors.data(), contents.tensors.size(),
                                    contents.scalars.data(), contents.scalars.size(), &tensors, &scalars);
    }
    return {status, std::move(contents)};
}

inline Result<void> check_rights(Access access, Tag tag) {
    return Result<void>(bufabi_rights_check(static_cast<std::int32_t>(access), static_cast<std::int32_t>(tag)));
}

/// How the bytes of the second tensor lie to those of the first.
inline Result<Relation> relate(const Tensor &first, const Tensor &second) {
    std::int32_t relation = 0;
    const auto status = bufabi_tensor_relate(&first, &second, &relation);
    return {status, static_cast<Relation>(relation)};
}

} // namespace bufabi

#endif // BUFABI_RECORD_HPP
