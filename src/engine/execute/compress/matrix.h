// Products of a large row-major matrix with a few vectors, written so that compilers use vector instructions.
#pragma once

#include <cstddef>
#include <span>

namespace xoe::engine {

// float32; the order of additions depends on the sizes alone.
float dot(const float* a, const float* b, std::size_t count) noexcept;

// p[k * rows + i] = sum over j of m[i * cols + j] * q[k * cols + j], for k < rank.
void multiply(std::span<const float> m, std::span<const float> q, std::span<float> p, std::size_t rows,
              std::size_t cols) noexcept;

// q[k * cols + j] = sum over i of m[i * cols + j] * p[k * rows + i], for k < rank.
void multiply_transposed(std::span<const float> m, std::span<const float> p, std::span<float> q, std::size_t rows,
                         std::size_t cols) noexcept;

// m[i * cols + j] = sum over k of p[k * rows + i] * q[k * cols + j].
void expand(std::span<const float> p, std::span<const float> q, std::span<float> m, std::size_t rows,
            std::size_t cols) noexcept;

// Makes the column's length 1 and returns what it was, whatever its magnitude. A column of zeros stays; one with an
// infinity or NaN becomes NaN, and so is its length.
float normalize(std::span<float> column) noexcept;

// Makes the columns p[k * rows ...] orthonormal, in their order (modified Gram-Schmidt, each column twice). One that
// depends on those before it becomes zero; infinities and NaN make it and those after it NaN.
void orthonormalize(std::span<float> p, std::size_t rows) noexcept;

}  // namespace xoe::engine
