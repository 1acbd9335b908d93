// Files in, NumPy arrays out, and back. A mapped file stays mapped as long as the array lives.
#include "_io.hpp"

#include <filesystem>
#include <memory>

#include <nanobind/ndarray.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "_answer.hpp"
#include "_rows.hpp"
#include "_run.hpp"
#include "kith/error.hpp"
#include "kith/io.hpp"

namespace nb = nanobind;

namespace kith::python {
namespace {

// The formats by the names that name() gives them.
std::optional<FileFormat> parse_format(const std::string& text) {
  if (text.empty()) return std::nullopt;
  std::string known;
  for (int i = 0; i <= static_cast<int>(FileFormat::index); ++i) {
    const auto format = static_cast<FileFormat>(i);
    if (text == name(format)) return format;
    known += (known.empty() ? "" : ", ") + std::string(name(format));
  }
  throw InvalidArgument("format '" + text + "' is not one Kith knows; use " + known);
}

// NumPy has no bfloat16: those bits go out as uint16 and the Python side names them.
nb::dlpack::dtype dlpack_type(Dtype dtype) {
  using enum nb::dlpack::dtype_code;
  const auto type = [](nb::dlpack::dtype_code code, int bits) {
    return nb::dlpack::dtype{static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(bits), 1};
  };
  switch (dtype) {
    case Dtype::f32: return type(Float, 32);
    case Dtype::f64: return type(Float, 64);
    case Dtype::f16: return type(Float, 16);
    case Dtype::bf16: return type(UInt, 16);
    case Dtype::i8: return type(Int, 8);
    case Dtype::u8: return type(UInt, 8);
  }
  throw InvalidArgument("element type out of range");
}

}  // namespace

nb::object to_numpy(Dataset dataset) {
  const DatasetView view = dataset.view();
  auto held = std::make_unique<Dataset>(std::move(dataset));
  const bool writable = held->mutable_data() != nullptr;
  const std::size_t shape[2] = {static_cast<std::size_t>(view.rows), static_cast<std::size_t>(view.dim)};
  const std::int64_t strides[2] = {view.row_stride, 1};
  const nb::capsule owner(held.release(), [](void* p) noexcept { delete static_cast<Dataset*>(p); });
  const auto type = dlpack_type(view.dtype);
  // Mapped files are read-only memory: the array must say so, or a write would end the process.
  if (writable) {
    return nb::cast(nb::ndarray<nb::numpy>(const_cast<void*>(view.data), 2, shape, owner, strides, type));
  }
  return nb::cast(nb::ndarray<nb::numpy, nb::ro>(view.data, 2, shape, owner, strides, type));
}

void bind_io(nb::module_& module) {
  module.def(
      "read",
      [](const std::filesystem::path& path, const std::string& format, const std::string& member,
         std::int64_t first_row, std::int64_t max_rows) {
        Dataset dataset;
        const auto wanted = parse_format(format);
        run({}, nb::none(), false, [&](const Execution& execution) {
          dataset = read_dataset(path, {wanted, member, first_row, max_rows, execution.cancelled});
        });
        const char* dtype = numpy_name(dataset.dtype());
        return nb::make_tuple(to_numpy(std::move(dataset)), dtype);
      },
      nb::arg("path"), nb::arg("format"), nb::arg("member"), nb::arg("first_row"), nb::arg("max_rows"),
      "(array, element type); bfloat16 comes as the bits in a uint16 array.");
  module.def(
      "write",
      [](const std::filesystem::path& path, const Rows& rows, const std::string& format) {
        const auto wanted = parse_format(format);
        run({}, nb::none(), false, [&](const Execution& execution) {
          write_dataset(path, rows.dataset, {wanted, execution.cancelled});
        });
      },
      nb::arg("path"), nb::arg("rows"), nb::arg("format"), "Writes vectors, the whole file or nothing.");
  module.def(
      "count_rows", [](const std::filesystem::path& path) { return inspect(path).rows; }, nb::arg("path"),
      "How many rows a file holds.");
  module.def(
      "copy_points",
      [](const std::filesystem::path& path, const std::filesystem::path& source,
         const std::vector<std::string>& names, const Rows* columns, const RowSet* kept) {
        run({}, nb::none(), false, [&](const Execution& execution) {
          PointColumns added;
          added.names = names;
          if (columns != nullptr) added.values = columns->dataset;
          copy_points(path, source, added, kept, {{}, execution.cancelled});
        });
      },
      nb::arg("path"), nb::arg("source"), nb::arg("names"), nb::arg("columns").none(), nb::arg("kept").none(),
      "A file of points once more, with columns, or some of its points.");
  module.def(
      "read_neighbors",
      [](const std::filesystem::path& path) {
        Neighbors neighbors;
        run({}, nb::none(), false,
            [&](const Execution& execution) { neighbors = read_neighbors(path, {}, execution.cancelled); });
        return to_python(std::move(neighbors));
      },
      nb::arg("path"), "(distances, indices, statistics) of a file of results or ground truth.");
  module.def(
      "write_neighbors",
      [](const std::filesystem::path& path, const Distances& distances, const Indices& indices,
         const std::string& format) {
        const auto wanted = parse_format(format);
        std::vector<std::filesystem::path> files;
        run({}, nb::none(), false, [&](const Execution& execution) {
          files = write_neighbors(path, from_python(distances, indices, execution),
                                  {wanted, execution.cancelled});
        });
        return files;
      },
      nb::arg("path"), nb::arg("distances"), nb::arg("indices"), nb::arg("format"),
      "Writes results; returns the files written.");
}

}  // namespace kith::python
