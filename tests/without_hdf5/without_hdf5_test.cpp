// A build with KITH_HDF5=OFF: such files are recognised and refused with the remedy, all others work.
#include <fstream>
#include <functional>
#include <vector>

#include "unit/io/support.hpp"

namespace kith {
namespace {

using test::expect_error;

class WithoutHdf5 : public test::IoTest {};

const std::vector<float> rows = {1, 2, 3, 4, 5, 6};

TEST_F(WithoutHdf5, FilesAreRecognisedAndRefused) {
  const auto path = (*this)("a.h5");
  std::ofstream(path, std::ios::binary) << "\x89HDF\r\n\x1a\n and more";
  for (const auto& read :
       std::vector<std::function<void()>>{[&] { (void)read_dataset(path); }, [&] { (void)inspect(path); },
                                          [&] { (void)read_neighbors(path); }}) {
    expect_error<IoError>(read, {"a.h5", "without HDF5", "KITH_HDF5=ON"});
  }
}

TEST_F(WithoutHdf5, NothingIsWritten) {
  expect_error<IoError>([&] { write_dataset((*this)("b.h5"), DatasetView(rows.data(), 2, 3)); },
                        {"without HDF5", "npy"});
  Neighbors answer;
  answer.queries = answer.k = 1;
  answer.indices = {0};
  answer.distances = std::vector<float>{0};
  expect_error<IoError>([&] { write_neighbors((*this)("c.hdf5"), answer); }, {"without HDF5", "npy"});
  EXPECT_EQ(files(), 0U);
}

TEST_F(WithoutHdf5, OtherFormatsWork) {
  write_dataset((*this)("a.npy"), DatasetView(rows.data(), 2, 3));
  EXPECT_EQ(read_dataset((*this)("a.npy")).view().rows, 2);
}

}  // namespace
}  // namespace kith
