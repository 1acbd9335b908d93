// Nearest neighbours by groups of queries: columns of places or of distances, as reductions read them.
#include "point_tree/cuda/group_kernel.cuh"

namespace kith::point_tree::cuda {

void search_columns(const GroupSearch& search, int device, cudaStream_t stream) {
  visit_list(search.answer.k, [&]<int K>() {
    if (search.places) {  // of which planes are made, in euclidean space
      launch<K, false, Output::places>(search, device, stream);
    } else if (search.manhattan) {
      launch<K, true, Output::distances>(search, device, stream);
    } else {
      launch<K, false, Output::distances>(search, device, stream);
    }
  });
}

}  // namespace kith::point_tree::cuda
