// HDF5 in a build without it (KITH_HDF5=OFF): such files are recognised, and refused.
#include "io/format.hpp"

namespace kith::io {
namespace {

constexpr std::string_view remedy =
    "this build of Kith is without HDF5 (KITH_HDF5=OFF); use npy or another format, or build with "
    "KITH_HDF5=ON";

[[noreturn]] void refuse(const Source& source) {
  throw bad_file(source, "is HDF5, and {}", remedy);
}
[[noreturn]] void refuse_to_write() {
  throw IoError(fmt::format("cannot write HDF5: {}", remedy));
}

}  // namespace

bool is_hdf5(const Source& source) {
  return source.starts_with("\x89HDF\r\n\x1a\n");
}
FileInfo inspect_hdf5(const Source& source) {
  refuse(source);
}
Dataset read_hdf5(const Source& source, const ReadOptions& /*options*/) {
  refuse(source);
}
Neighbors read_neighbors_hdf5(const Source& source) {
  refuse(source);
}
void write_hdf5(AtomicFile& /*file*/, const DatasetView& /*data*/) {
  refuse_to_write();
}
void write_neighbors_hdf5(AtomicFile& /*file*/, const Neighbors& /*neighbors*/) {
  refuse_to_write();
}

}  // namespace kith::io
