"""Where things lie in the memory that native code and Python share: pool, table, queue."""

STATE_BYTES = 1024
# Places in the pool's state, each on a pair of cache lines of its own (prefetchers fetch pairs).
TICKET = 0  # int64: chunks still free, above BIAS
DONE = 128  # int32: chunks finished
OFFER = 256  # first entry, entries, chunks, pointers, args, workers: six int64
LOCK = 384  # int32: a leader uses the thread pool
SLEEPERS = 512  # int32: workers asleep or about to be
WAKE = 516  # int32: changes when sleepers shall look again
STOP = 520  # int32: workers shall leave
LEADER_SLEEPS = 640  # int32
WORKERS = 768  # int32: threads at hand with the leader
WANTED = 772  # int32: threads that there should be
SPIN = 776  # int64: clock ticks of spinning
IDLE = 784  # int64: clock ticks until an idle worker sleeps
ACTIVE = 896  # int32: plans being run
SHARES = STATE_BYTES  # of each worker an int64: the next chunk of its share
SHARE_BYTES = 128

BIAS = 1 << 32
"""Where the ticket counter counts as zero: late decrements take it below, never under zero."""

# Fields of an entry, eight int64 each.
FUNCTION, FIRST_POINTER, FIRST_ARG, UNITS, GRAIN, FLAGS, CHUNK, CHUNKS = range(8)
ENTRY_BYTES = 64

# Fields of the control block of one run, int64 each.
CONTROL = (
    "entries",
    "count",
    "base_of",
    "offset_of",
    "pointer_count",
    "pointers",
    "bases",
    "args",
    "profile",
    "abort",
    "position",
)

WITH_PREVIOUS = 1
"""Entry flag: needs nothing from the entry before it, so that both may run at once."""
POINT_OF_NO_RETURN = 2
"""Entry flag: from here on state is written, and the abort flag is not looked at any more."""

FINISHED, ABORTED, ALONE = 0, 1, 2
"""Results of a run: done; stopped by the abort flag; done, but the pool's threads are missing."""

CHUNKS_PER_WORKER = 8

# Places in the state of a queue of plans.
QUEUE_TAIL = 0  # int64: jobs that have ended
QUEUE_HALT = 8  # int32: the job at the tail failed, and nothing runs until somebody resumes
QUEUE_HEAD = 128  # int64: jobs that were ever given
QUEUE_BELL = 256  # int32: changes when a sleeping executor shall look again
QUEUE_ASLEEP = 260  # int32: whether it sleeps
QUEUE_STOP = 264  # int32: it shall leave
QUEUE_NEWS = 384  # int32: changes when a job ends or fails
QUEUE_WAITERS = 388  # int32: threads asleep until then
QUEUE_SPIN = 392  # int64: clock ticks of spinning
QUEUE_IDLE = 400  # int64: clock ticks until a waiter sleeps
QUEUE_SLOTS = 512  # addresses of programs, of job n at n modulo their number
SLOTS = 64
QUEUE_BYTES = QUEUE_SLOTS + 8 * SLOTS

END, RUN, CHECK = 0, 1, 2
"""Instructions of a job's program, pairs of int64: no more; run the table whose control block lies
there; fail if the byte there is not zero."""
