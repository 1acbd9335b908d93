"""The words of docs/from-a-loop-to-the-roofline.md: ideas and limits of the rungs, no figure that was measured."""

HEAD = """# From a loop to the roofline

<!-- Made by `python -m benchmarks.report` from benchmarks/results/ladder-*.json; change those, or
     benchmarks/report/story.py, not this file. -->

Of many points, which is nearest to this one? Two nested loops answer that, and everything after them is about the same
answer sooner. This page climbs from these loops to what the hardware allows, one idea a rung. The first nineteen rungs
are the searches of the reports that Kith grew from, rewritten as short, complete programs
([benchmarks/ladder](../benchmarks/ladder), how they are run: [ladder.md](ladder.md)); the last ones are Kith. Every
figure was measured, and every word on who is faster was written by the program that read the figures.

A case is *d; q; n; k*: q queries among n points in d dimensions, k neighbours each. There are two kinds. With **one
query** each coordinate is used once, and a search can be no faster than memory delivers the points. With **many
queries** each coordinate can serve all of them, and arithmetic is the limit, if the coordinates get to where it is
done. Most rungs are about getting them there.
"""

SPEED_UP = """*How many times longer each rung takes than the fastest of its case. A mark is a case; a rung that helps moves
its marks to the left of those above it.*
"""

FLOOR = """*Floor* is the least time that brute force in float32 can take on one such GPU, by its memory or its
arithmetic. Trees look at few of the pairs, and a filter of one byte a coordinate reads a quarter of the bytes and
multiplies on the tensor cores: both may take less. For a small case it is far below what a launch and its end take.
"""

# A chapter: its title and parts; a part: the rung's id ("" for words between rungs), its text, and the rungs to measure
# it against.
CHAPTERS = (
    (
        "A loop",
        (
            ("serial", """
**Rung 1** is the definition: for every query look at every point, keep the nearest. One core does one addition after
the other, and each waits for the one before it, since a sum in floating point may not be reordered behind the
programmer's back. What memory could deliver does not matter yet.
""", ()),
        ),
    ),
    (
        "Onto the GPU, by way of a matrix",
        (
            ("matrix-thrust", """
A GPU wants thousands of independent things to do, and all distances are such: a thread each. **Rung 2** stores them as
a matrix, queries by points, and lets a library find the smallest of each row. The library fills the whole chip for a
single row. It is called for each row, though, and a call is a handful of launches and a wait: once for one query, and a
thousand times for a thousand.
""", ("serial",)),
            ("matrix-reduction", """
**Rung 3** gives every row to a block of threads: each thread keeps the nearest of its share, and a tree in shared
memory finds the nearest of these. All rows are reduced by one launch. The price is that one query is one block, which
leaves all multiprocessors but one idle. And there is still the matrix: each distance goes out to memory and comes back,
eight bytes a pair, for a number that is looked at once.
""", ("matrix-thrust",)),
        ),
    ),
    (
        "Without the matrix",
        (
            ("fused", """
**Rung 4** compares a distance where it was computed, in a register. The matrix is gone, and what is read is the points.
With one query the lone block now has the distances to compute as well, which the whole chip did before. And it matters
how the points lie: row by row, the 32 threads of a warp ask for values that are d coordinates apart, and each such load
touches many lines of the cache where one would do.
""", ("matrix-reduction",)),
            ("by-coordinate", """
**Rung 5** turns the points around, all first coordinates, then all second ones: the structure of arrays. A warp's 32
loads are then one line. That pays where many warps compete for the cache. A lone block waits for memory's latency
instead, and a point whose coordinates share a line makes it wait less often. The transposition is done once for all
searches and is not in the time.
""", ("fused",)),
        ),
    ),
    (
        "Special memories",
        (
            ("texture", """
GPUs have memories with a purpose, and for years the road to speed led through them. **Rung 6** reads the points through
the texture units, which had a cache before ordinary loads had one. A texture is 65,536 texels wide, so that many points
are folded into several rows. By now ordinary loads are cached by the very same memory, and go to it by a wider road.
""", ("by-coordinate",)),
            ("constant", """
**Rung 7** puts the queries into constant memory, which broadcasts one value to all threads of a warp. It holds 64 KiB,
so that more queries go in batches. It saves the queries' loads, which hit the cache anyway; those of the points remain.
""", ("by-coordinate",)),
        ),
    ),
    (
        "Filling the chip, and several of them",
        (
            ("occupancy", """
One block a query leaves a GPU idle when there are few queries. **Rung 8** asks the runtime how many blocks fit the
device, deals out the points of each query to as many, and reduces their answers by a second kernel. It is made for one
query, which now has the whole chip and its memory; with a thousand queries the chip was full before.
""", ("by-coordinate",)),
            ("unrolled", """
**Rung 10** does the last steps of each reduction by shuffles, in registers and without barriers. It is a classic lesson
on reductions; here a block reduces once, after it has looked at thousands of points.
""", ("occupancy",)),
            ("several-gpus", """
**Rung 9** deals the points out to several GPUs and takes the nearest of their answers. What does not shrink with the
share is the launches, the copies of the answers and the wait.
""", ("occupancy",)),
            ("", """
Here the reports' climb for k = 1 ends. With many queries every rung so far loads a value, uses it for one subtraction
and one multiply-add, and forgets it: the units that load are busy long before those that calculate. The way on is to
let each loaded value serve many pairs.
""", ()),
        ),
    ),
    (
        "More than one neighbour",
        (
            ("insertion", """
For k > 1 each query needs a sorted list. **Rung 11** is the loop again, once a thread, a query each. Some hundred
queries are a dozen warps on a chip that holds thousands, and each of them waits for its own loads.
""", ("serial",)),
            ("tiled", """
**Rung 12** computes the matrix of distances as a matrix product is computed: a block loads a tile of queries and one of
points into shared memory, and every value serves sixteen pairs. That is the idea that rungs 2 to 10 lack. The lists are
still made by one thread a query.
""", ("insertion",)),
            ("merged-lists", """
**Rung 13** gives every thread of a block its own list and merges the lists by a tree. The lists fill shared memory, so
that few blocks fit, and each thread must learn by itself what is far: with few points a thread most of them enter its
list.
""", ("tiled",)),
            ("tuned-lists", """
**Rung 14** lets the occupancy calculator choose the size of the block, between short walks with long merges and the
reverse.
""", ("merged-lists",)),
            ("insertion-sort", """
**Rung 19**, of the report on point clouds, has two kernels: all distances, then a sort by insertion that never keeps
more than k sorted. k may be as large as one likes; the list lies in device memory, and each insertion is a chain of
loads and stores.
""", ("tiled", "matrix-reduction")),
        ),
    ),
    (
        "Not looking at every point",
        (
            ("kd-tree", """
Everything so far looks at every pair. **Rung 15** halves the points at a median, again and again, and a query leaves
out what lies behind a plane that is too far away. In three dimensions that leaves little to look at; in sixteen the
plane is nearly always near enough.
""", ("serial",)),
            ("kd-tree-gpu", """
**Rung 16** copies that tree to the GPU, a thread a query. Threads of a warp part ways at the first node where they turn
differently, and then take turns; a thousand queries are 32 warps. The tree is still built on the CPU, by one thread.
""", ("kd-tree",)),
            ("octree", """
**Rung 17** halves space along all axes at once, into up to eight cells, and visits every cell that can hold a
neighbour.
""", ("kd-tree",)),
            ("octree-gpu", """
**Rung 18** is that octree on the GPU. The reports' one did not visit all cells that it had to and so missed some
neighbours; this one is exact.
""", ("octree", "kd-tree-gpu")),
        ),
    ),
    (
        "The engine",
        (
            ("engine-cpu", """
What Kith does differently, rung by rung:

- *The loaded value serves many pairs.* With many queries distances are products of tiles, as in rung 12, on the tensor
  cores, which do many times as many multiply-adds a second. In few dimensions it stays with float32 differences.
- *Fewer bytes.* A filter reads one byte a coordinate in place of four. It carries a proof that it never drops a
  neighbour ([exact-contract.md](exact-contract.md)), so that the answer is still the exact one.
- *No lists while looking.* A bound comes first, from a few points; then each product is compared with an integer
  threshold in a register, and only the few that pass are written, evaluated exactly and sorted.
- *One query fills the chip too*, by a single look at every pair with three overlapping launches. Among few points the
  launches are most of the time, and a program with fewer is quicker.
- *Trees are built where they are searched*, and a warp walks together: for one query with its 32 lanes, or once for 32
  neighbouring queries ([gpu.md](gpu.md#trees)).

On the CPU the same ideas run on all cores with its vector instructions:
""", ("serial",)),
            ("engine-kd-tree-cpu", "", ("kd-tree",)),
            ("engine-octree-cpu", "", ("octree",)),
            ("engine", "On the GPU:", ("occupancy", "tuned-lists")),
            ("engine-kd-tree", "", ("kd-tree-gpu",)),
            ("engine-octree", "", ("octree-gpu",)),
        ),
    ),
)

FOOT = """## Climb it yourself

```sh
kith ladder --include-copies -o ladder.json     # your machine; without a GPU the rungs on the processor
kith report ladder.json -o ladder.html          # these charts and all numbers, as one page
```

The figures of this page were made by:

```sh
{commands}
```
"""
