// 128-bit integers for overflow-proof size checks.
#pragma once

namespace kith {
__extension__ typedef __int128 int128;
}  // namespace kith
