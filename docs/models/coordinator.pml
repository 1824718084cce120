/* How hosts agree, for Spin: docs/models/README.md and docs/negotiation.md.

   A chain of hosts 0 - 1 - 2, so that there is a root, a host between and a leaf. Each host gets each tensor ready STEPS
   times, in any order, again once it was decided. Hosts report to their parent what is ready in all of their subtree; the
   root decides, and decisions go down. The root may evict names at any time, which begins an epoch: hosts report all that
   is undecided again, and reports of an earlier epoch are ignored. */

#ifndef HOSTS
#define HOSTS 3
#endif
#ifndef TENSORS
#define TENSORS 3
#endif
#ifndef STEPS
#define STEPS 2
#endif
#ifndef EVICTIONS
#define EVICTIONS 1
#endif
#define TOTAL (TENSORS * STEPS)
#define EVERYTHING ((1 << TENSORS) - 1)
#define BIT(t) (1 << (t))

mtype = { decide, evict };

chan up[HOSTS] = [8] of { byte, byte };    /* from host i to i - 1: reports, with their epoch and a set of tensors */
chan down[HOSTS] = [8] of { mtype, byte }; /* from host i - 1 to i: decide, with a set of tensors, or evict */

byte ready_count[HOSTS * TENSORS]; /* submissions since the start */
byte decided_count[TENSORS];       /* decisions of the root */
byte order[TOTAL];                 /* of the root's decisions: tensor + 1 */
byte decisions;
byte evictions;

/* The root decides a tensor: every host must have submitted it once more than it was decided. */
inline check_ready(t) {
  for (h : 0 .. HOSTS - 1) { assert(ready_count[h * TENSORS + t] == decided_count[t] + 1) }
  h = 0;
  decided_count[t]++;
  order[decisions] = t + 1;
  decisions++
}

/* A host applies a decision. */
inline apply(t) {
  assert((mine & BIT(t)) != 0);
  assert(order[applied] == t + 1);
  mine = mine & ~BIT(t);
  below = below & ~BIT(t);
  reported = reported & ~BIT(t);
  applied++
}

inline begin_epoch() {
  epoch++;
#ifndef BUG_SILENT
  reported = 0;
#endif
  below = 0
}

#ifdef BUG_EARLY
#define BELOW (me == 0 -> EVERYTHING : below)
#else
#define BELOW (me == HOSTS - 1 -> EVERYTHING : below)
#endif
#define COMPLETE (mine & BELOW)
#ifdef BUG_EPOCH
#define CURRENT true
#else
#define CURRENT (e == epoch)
#endif

#define SUBMIT(t) \
  atomic { \
    (mine & BIT(t)) == 0 && ready_count[me * TENSORS + t] < STEPS -> \
    ready_count[me * TENSORS + t]++; \
    mine = mine | BIT(t) \
  }

proctype host(byte me) {
  byte mine, below, reported; /* sets of tensors that are not decided */
  byte epoch, applied, e, n, h, x;
  do
  :: SUBMIT(0)
#if TENSORS > 1
  :: SUBMIT(1)
#endif
#if TENSORS > 2
  :: SUBMIT(2)
#endif
  /* To the parent. */
  :: d_step {
      me > 0 && (COMPLETE & ~reported) != 0 ->
      n = COMPLETE & ~reported;
      reported = reported | n;
      assert(nfull(up[me]));
      up[me] ! epoch, n;
      n = 0
    }
  /* From the child. */
  :: d_step {
      me < HOSTS - 1 && nempty(up[me + 1]) ->
      up[me + 1] ? e, n;
      if
      :: !CURRENT -> assert(e < epoch)
      :: CURRENT -> assert((below & n) == 0); below = below | n
      fi;
      e = 0;
      n = 0
    }
  /* The root decides, and evicts. */
  :: d_step {
      me == 0 && COMPLETE != 0 ->
      n = COMPLETE;
      assert(nfull(down[1]));
      down[1] ! decide, n;
      for (x : 0 .. TENSORS - 1) {
        if
        :: (n & BIT(x)) != 0 -> check_ready(x); apply(x)
        :: else
        fi
      }
      x = 0;
      n = 0
    }
  :: d_step {
      me == 0 && evictions < EVICTIONS ->
      evictions++;
      assert(nfull(down[1]));
      down[1] ! evict, 0;
      begin_epoch()
    }
  /* From the parent, and on to the child. */
  :: d_step {
      me > 0 && nempty(down[me]) ->
      down[me] ? x, n;
      if
      :: me < HOSTS - 1 -> assert(nfull(down[me + 1])); down[me + 1] ! x, n
      :: else
      fi;
      if
      :: x == decide ->
        assert((reported & n) == n);
        for (x : 0 .. TENSORS - 1) {
          if
          :: (n & BIT(x)) != 0 -> apply(x)
          :: else
          fi
        }
      :: x == evict -> begin_epoch()
      fi;
      x = 0;
      n = 0
    }
  :: atomic { applied == TOTAL -> break }
  od;
  assert(mine == 0)
}

init {
  atomic {
    byte i;
    for (i : 0 .. HOSTS - 1) { run host(i) }
  }
}
