// The commit this program was built from.
#include "commit.hpp"

#include "machine.hpp"

namespace kith::ladder {

std::string commit() {
  return KITH_COMMIT;
}

}  // namespace kith::ladder
