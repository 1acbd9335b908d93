// Writing HDF5, and what reading and writing share.
#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include <pthread.h>

#include "io/format.hpp"
#include "io/hdf5_library.hpp"

namespace kith::io {
namespace {

std::mutex& library_mutex() noexcept {
  static std::mutex one;
  return one;
}

// A process that is forked, be it for reading (guarded.hpp), finds the library at rest: while another thread
// writes, the fork waits.
void hold_library() noexcept {
  library_mutex().lock();
}
void leave_library() noexcept {
  library_mutex().unlock();
}
const int registered = ::pthread_atfork(&hold_library, &leave_library, &leave_library);

// binary16 or bfloat16 as a memory type: sign bit 15, then the exponent, then the mantissa.
Handle half_type(std::size_t exponent_bits, std::size_t bias) {
  Handle type(H5Tcopy(H5T_IEEE_F32LE), H5Tclose);
  const std::size_t mantissa = 15 - exponent_bits;
  H5Tset_fields(type, 15, mantissa, exponent_bits, 0, mantissa);
  H5Tset_size(type, 2);
  H5Tset_ebias(type, bias);
  return type;
}

void write_member(hid_t file, const char* name, hid_t type, std::int64_t rows, std::int64_t columns,
                  const void* data, const std::string& target) {
  const std::array<hsize_t, 2> shape = {static_cast<hsize_t>(rows), static_cast<hsize_t>(columns)};
  const Handle space(H5Screate_simple(2, shape.data(), nullptr), H5Sclose);
  const Handle dataset(H5Dcreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), H5Dclose);
  if (!dataset.good() || (rows > 0 && H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) < 0)) {
    throw IoError(fmt::format("cannot write '{}': {}", target, reason()));
  }
}

// HDF5 writes by name, goes back and forth in its file, and reports what it buffered only when it closes.
// @param whole called with the open file when it is filled
template <class Fill, class Whole>
void fill_file(const std::string& target, hid_t access, Fill&& fill, Whole&& whole) {
  const hid_t file = H5Fcreate(target.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access);
  if (file < 0) throw IoError(fmt::format("cannot write '{}': {}", target, reason()));
  try {
    fill(file, target);
    whole(file);
  } catch (...) {
    H5Fclose(file);
    throw;
  }
  if (H5Fclose(file) < 0) throw IoError(fmt::format("cannot write '{}': {}", target, reason()));
}

// Into the temporary file; for a stream into memory first.
template <class Fill>
void write_file(AtomicFile& out, Fill&& fill) {
  const Session session;
  if (!out.temporary().empty()) {
    fill_file(out.temporary().string(), H5P_DEFAULT, fill, [](hid_t) {});
    return;
  }
  const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  H5Pset_fapl_core(access, std::size_t{1} << 20U, false);
  std::vector<std::byte> image;
  fill_file("HDF5 in memory", access, fill, [&](hid_t file) {
    H5Fflush(file, H5F_SCOPE_GLOBAL);
    const ssize_t bytes = H5Fget_file_image(file, nullptr, 0);
    if (bytes > 0) image.resize(static_cast<std::size_t>(bytes));
    if (bytes <= 0 || H5Fget_file_image(file, image.data(), image.size()) != bytes) {
      throw IoError(fmt::format("cannot make an HDF5 file in memory: {}", reason()));
    }
  });
  out.write(image.data(), image.size());
}

}  // namespace

Session::Session() : lock_(library_mutex()) {
  (void)registered;
  H5Eget_auto2(H5E_DEFAULT, &function_, &data_);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

Session::~Session() {
  H5Eclear2(H5E_DEFAULT);
  H5Eset_auto2(H5E_DEFAULT, function_, data_);
}

std::string reason() {
  std::string text = "no reason given";
  H5Ewalk2(
      H5E_DEFAULT, H5E_WALK_UPWARD,
      [](unsigned depth, const H5E_error2_t* error, void* to) -> herr_t {
        if (depth == 0 && error->desc != nullptr) *static_cast<std::string*>(to) = error->desc;
        return 0;
      },
      &text);
  // Of a call that failed only what the system said; around it are the time and addresses.
  constexpr std::string_view said = "error message = '";
  if (const auto at = text.find(said); at != std::string::npos) {
    text = text.substr(at + said.size());
    text.resize(std::min(text.find('\''), text.size()));
  }
  return text;
}

Handle memory_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::f32: return {H5Tcopy(H5T_IEEE_F32LE), H5Tclose};
    case Dtype::f64: return {H5Tcopy(H5T_IEEE_F64LE), H5Tclose};
    case Dtype::i8: return {H5Tcopy(H5T_STD_I8LE), H5Tclose};
    case Dtype::u8: return {H5Tcopy(H5T_STD_U8LE), H5Tclose};
    case Dtype::f16: return half_type(5, 15);
    case Dtype::bf16: return half_type(8, 127);
  }
  throw InvalidArgument("element type out of range");
}

void write_hdf5(AtomicFile& out, const DatasetView& data) {
  write_file(out, [&](hid_t file, const std::string& target) {
    const Dataset packed = data.contiguous() ? Dataset() : Dataset::copy(data);
    const void* rows = data.contiguous() ? data.data : packed.view().data;
    write_member(file, "train", memory_type(data.dtype), data.rows, data.dim, rows, target);
  });
}

void write_neighbors_hdf5(AtomicFile& out, const Neighbors& neighbors) {
  write_file(out, [&](hid_t file, const std::string& target) {
    write_member(file, "neighbors", H5T_STD_I64LE, neighbors.queries, neighbors.k, neighbors.indices.data(),
                 target);
    std::visit(
        [&](const auto& held) {
          const bool doubles = neighbors.distance_dtype() == Dtype::f64;
          write_member(file, "distances", doubles ? H5T_IEEE_F64LE : H5T_IEEE_F32LE, neighbors.queries,
                       neighbors.k, held.data(), target);
        },
        neighbors.distances);
  });
}

}  // namespace kith::io
