"""The words of docs/from-bang-to-one-kernel.md: ideas and limits of the rungs of graphs, no figure that was measured."""

HEAD = """# From BANG to one kernel

<!-- Made by `python -m benchmarks.report` from benchmarks/results/ladder-graph-*.json; change those, or
     benchmarks/report/walk_story.py, not this file. -->

A graph finds most of the nearest rows and looks at few of them. On a CPU a search is a walk: keep the L nearest rows
met so far, look at the neighbours of the nearest that was not expanded yet, stop when all L are. A walk is one long
chain of waits for memory, which is what a GPU is bad at and thousands of walks at once are good at.

BANG (Karthik V., S. Khan, S. Singh, H. V. Simhadri, J. Vedurada: *BANG: Billion-Scale Approximate Nearest Neighbour
Search using a Single GPU*, [arXiv 2401.11324](https://arxiv.org/abs/2401.11324), 2024) walks through a graph of a billion
rows with one GPU. Kith's engine began there. This page takes BANG apart: rungs 42 to 44 of the
[ladder](ladder.md) are its three variants, rungs 45 to 53 have one part taken out or changed, rung 41 is the plain walk
and rungs 54 and 55 are Kith, all on the same graph with lists of the same length. The rungs are written from the paper,
none of BANG's code is in them; three faults of the published program are not rebuilt (below).

Answers may miss rows, so each comes with its recall: the share of the nearest rows, by brute force, that it found. Every
distance was compared with the row's own, and a rung whose recall falls below what is said of it fails.
"""

PUBLISHED = """The paper's figures were measured on an A100 and another machine's memory, on data sets of up to a billion rows;
those of this page are of other data and a smaller size. They stand side by side to show the order of magnitude, not
to be divided by each other.
"""

# A chapter: its title and parts; a part: the rung's id ("" for words between rungs), its text, and the rungs to measure
# it against.
CHAPTERS = (
    (
        "The walk",
        (
            (
                "vamana-walk",
                """
**Rung 41** is the definition, on one core: a sorted list, a set of the rows met, distances of full rows. Everything
that follows finds the rows that this one finds, or fewer.
""",
                (),
            ),
        ),
    ),
    (
        "All walks in step",
        (
            (
                "bang-in-memory",
                """
**Rung 43**, *In-memory*, takes a step of all walks together and cuts it into kernels, each with as many threads as its
work has: filter the neighbours, measure them, choose the next row, sort, merge. That fills the chip with any number of
queries from some hundreds on. The price is lockstep. A step is five launches, each of which reads from memory what the
one before wrote there, and all go on until the longest walk has ended.
""",
                ("vamana-walk",),
            ),
            (
                "bang-one-size",
                """
Each kernel has blocks of its own size, since one has eight threads a neighbour and another one. **Rung 49** gives all
of them 256 threads: most of those have nothing to do, and fewer blocks fit.
""",
                ("bang-in-memory",),
            ),
        ),
    ),
    (
        "Distances from a table",
        (
            (
                "bang-exact",
                """
*Product quantization* cuts a row into m parts and stores for each the number of the nearest of 256 centroids, m bytes
in all. A query's distances to all centroids are a table, made once, by a block a query with a thread a centroid; the
distance of a row is the sum of m of its entries. That is what lets the codes of a billion rows fit a GPU. **Rung 44**,
*Exact*, does without: the vectors are on the GPU, their distances need no table, and the worklist is the answer. The
others evaluate the full vectors of the rows they have expanded at the end (re-ranking), so that distances are true.
""",
                ("bang-in-memory",),
            ),
            (
                "bang-8-bytes",
                """
How many bytes does a code need? With fewer, tables are smaller and codes are read sooner; with too few, walks are led
astray, and rows that were never expanded cannot be re-ranked. **Rungs 50 to 53** have codes of 8 to 64 bytes, the
others 74, or one byte a dimension where there are fewer.
""",
                ("bang-in-memory",),
            ),
            ("bang-16-bytes", "", ("bang-in-memory",)),
            ("bang-32-bytes", "", ("bang-in-memory",)),
            ("bang-64-bytes", "", ("bang-in-memory",)),
            (
                "bang-atomic-add",
                """
Eight threads share the sum of a row. Shuffles add their shares in three steps, in registers. **Rung 48** adds them to
one place in shared memory with `atomicAdd`, one after the other, in any order: the sums differ in their last bits from
run to run.
""",
                ("bang-in-memory",),
            ),
        ),
    ),
    (
        "What was met before",
        (
            (
                "bang-no-bloom",
                """
A row is the neighbour of many. BANG keeps a *Bloom filter* a query, some 50 kB: two hashes (FNV-1a) of the row's number
set two bits, and a row that finds both set counts as met. A false positive loses a row; a false negative there is none.
**Rung 47** has no filter: rows that were expanded come back and push others off the list. The paper tells that recall
fell to a tenth without it. The engine has no filter either, and loses nothing. It looks a row up in the list by its
number, and a row that was dropped from the list cannot come back, since the list only improves; so a small table that
forgets saves work and decides nothing, and there are no false positives.
""",
                ("bang-in-memory",),
            ),
        ),
    ),
    (
        "Sorting, merging",
        (
            (
                "",
                """
The neighbours are sorted by a merge sort whose elements all find their places at once: in each round an element's place
is its own index plus the number of smaller ones in the run beside it, found by binary search. The same search merges
the sorted neighbours into the list. Rungs and engine agree on this; the engine's walk needs no sort, since it puts the
neighbours into place 32 at a time.
""",
                (),
            ),
        ),
    ),
    (
        "The graph on the host",
        (
            (
                "bang-base",
                """
**Rung 42**, *Base*, is what BANG is for: graph and vectors stay in host memory, only codes are on the GPU. In each
step the host gets the rows to expand, gathers their neighbours, and sends them. Meanwhile, behind the lists, the
vectors of the rows go the same way, on a stream of their own, and are evaluated as they arrive, so that re-ranking is
done when the walk is.
""",
                ("bang-in-memory",),
            ),
            (
                "bang-no-prefetch",
                """
*Eager prefetch:* the row to expand next is the nearer of two, the first of the list that was not expanded and the
nearest of the new neighbours. It is known before these are sorted and merged, and the host gathers while the GPU does
that. **Rung 45** waits for the merge.
""",
                ("bang-base",),
            ),
            (
                "bang-no-async",
                """
**Rung 46** waits for every copy and has one stream: nothing overlaps with anything.
""",
                ("bang-base",),
            ),
        ),
    ),
    (
        "One kernel",
        (
            (
                "engine-graph",
                """
The engine's search is one launch. A warp takes a query from the entry to its last step, and when it has ended the
device puts the next query in its place: no lockstep, no host in the loop. The list stays in shared memory, where five
kernels wrote it to memory and read it again. Codes are a byte a value, compared by integer instructions: more bytes than product quantization, and no table of
distances to make and to read. Integers have no rounding, so the answer is the same bit for bit from any device. Where
the graph must stay on the host, the warps read it there themselves: nobody gathers ([gpu.md](gpu.md)). And it begins at
several entries, spread over the data, where the rungs begin at the medoid as BANG does: in a large graph of many
clusters it finds rows that they miss.
""",
                ("bang-in-memory", "bang-exact"),
            ),
            (
                "engine-graph-cpu",
                "On the CPU the same walk takes all cores (**rung 54**), several queries to a core, one going on while others wait.",
                ("vamana-walk",),
            ),
        ),
    ),
)

FAULTS = """## What was not rebuilt

- *Counts of neighbours that race.* New neighbours are counted by ballots and sums, so that their number and order are
  those of the list; a counter that threads add to, read while others still add, is neither.
- *Offsets of 32 bits.* A filter of 399,887 entries a query passes 2^32 bytes at the 10,741st query. All offsets here
  have 64 bits, and a filter's entry is a bit.
- *Distances in another order than rows.* A distance and its row are one integer from the moment it is measured.

So the rungs on a GPU give what the same steps give one after the other on the host, bit for bit (rung 48 aside), and
the tests compare just that.
"""

FOOT = """## Walk it yourself

```sh
kith ladder --case graph                                     # 1,000 queries among 100,000 rows; without a GPU rungs 20, 41, 54
kith ladder --case graph:96,10000,1000000,10 --list-size 96 -o ladder-graph-mine.json
kith ladder --case graph --base base.u8bin --queries queries.u8bin -k 10    # through rows of bytes of your own
kith report ladder-graph-mine.json -o walks.html             # the bars and all numbers, as one page
```
"""
