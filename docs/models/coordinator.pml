/* How hosts agree, for Spin: docs/models/README.md and docs/negotiation.md.

   A chain of hosts 0 - 1 - 2, so that there is a root, a host between and a leaf. Each host gets each tensor ready STEPS
   times, in any order, again once it was decided. Hosts report to their parent what is ready in all of their subtree; the
   root decides, and decisions go down. The root may announce a plan (all tensors by number, over and over), in which only
   counts go up and down, and a host may leave it, which the root answers with a break. A plan and a break begin an epoch:
   everything undecided is told anew, and what was told in an earlier epoch says nothing. */

#ifndef HOSTS
#define HOSTS 3
#endif
#ifndef TENSORS
#define TENSORS 3
#endif
#ifndef STEPS
#define STEPS 2
#endif
#ifndef PLANS
#define PLANS 1
#endif
#define TOTAL (TENSORS * STEPS)
#define EVERYTHING ((1 << TENSORS) - 1)
#define BIT(t) (1 << (t))

mtype = { report, progress, leave, decide, units, plan, break_plan };

/* What is sent, which epoch it is from, and a set of tensors or a count. */
chan up[HOSTS] = [8] of { mtype, byte, byte };   /* from host i to i - 1 */
chan down[HOSTS] = [8] of { mtype, byte };       /* from host i - 1 to i */

byte ready_count[HOSTS * TENSORS]; /* submissions, of all time */
byte decided_count[TENSORS];       /* decisions of the root */
byte order[TOTAL];                 /* what the root decided: tensor + 1 */
byte decisions;
byte plans;

/* The root decides one: every host must have submitted it once more than it was decided. */
inline check_ready(t) {
  for (h : 0 .. HOSTS - 1) { assert(ready_count[h * TENSORS + t] == decided_count[t] + 1) }
  h = 0;
  decided_count[t]++;
  order[decisions] = t + 1;
  decisions++
}

/* A host applies one. */
inline apply(t) {
  assert((mine & BIT(t)) != 0);
  assert(order[applied] == t + 1);
  mine = mine & ~BIT(t);
  below = below & ~BIT(t);
  told = told & ~BIT(t);
  applied++
}

inline begin_epoch(is_plan) {
  epoch++;
  below = 0;
  told = 0;
  units_below = 0;
  units_told = 0;
  units_decided = 0;
  leaving = false;
  replay = is_plan
}

/* Units, which are single tensors here, ready at this host since the plan began: those decided, and one after the other
   from there, at most a round. A guard must not be true when nothing is to be done, or no deadlock would show. */
#define HAS(k) (k < TENSORS && (mine & BIT((units_decided + k) % TENSORS)) != 0)
#define OWN_UNITS (units_decided + (HAS(0) -> (HAS(1) -> (HAS(2) -> 3 : 2) : 1) : 0))
#define UNITS (me < HOSTS - 1 && units_below < OWN_UNITS -> units_below : OWN_UNITS)

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
  byte mine, below, told; /* sets of tensors that are not decided */
  byte epoch, units_below, units_told, units_decided;
  byte applied, e, n, h, x;
  bool replay, leaving;
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
      me > 0 && !replay && (COMPLETE & ~told) != 0 ->
      n = COMPLETE & ~told;
      told = told | n;
      assert(nfull(up[me]));
      up[me] ! report, epoch, n;
      n = 0
    }
  :: d_step {
      me > 0 && replay && !leaving && UNITS > units_told ->
      units_told = UNITS;
      assert(nfull(up[me]));
      up[me] ! progress, epoch, units_told
    }
#ifndef BUG_STAY
  :: d_step { /* somebody waits for what does not come */
      me > 0 && replay && !leaving && mine != 0 ->
      leaving = true;
      assert(nfull(up[me]));
      up[me] ! leave, epoch, 0
    }
#endif
  /* From the child. */
  :: d_step {
      me < HOSTS - 1 && nempty(up[me + 1]) ->
      up[me + 1] ? x, e, n;
      if
      :: !CURRENT -> assert(e < epoch)
      :: CURRENT && x == report -> assert(!replay && (below & n) == 0); below = below | n
      :: CURRENT && x == progress -> assert(replay && n > units_below); units_below = n
      :: CURRENT && x == leave && me > 0 && !leaving ->
        assert(replay && nfull(up[me]));
        leaving = true;
        up[me] ! leave, epoch, 0
      :: CURRENT && x == leave && me > 0 && leaving
      :: CURRENT && x == leave && me == 0 ->
        assert(replay && nfull(down[1]));
        begin_epoch(false);
        down[1] ! break_plan, 0
      fi;
      x = 0;
      e = 0;
      n = 0
    }
  /* The root decides. */
  :: d_step {
      me == 0 && !replay && COMPLETE != 0 ->
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
      me == 0 && replay && UNITS > units_decided ->
      n = UNITS;
      assert(nfull(down[1]));
      down[1] ! units, n;
      for (x : units_decided .. n - 1) { check_ready(x % TENSORS); apply(x % TENSORS) }
      units_decided = n;
      x = 0;
      n = 0
    }
  :: d_step {
      me == 0 && !replay && plans < PLANS ->
      plans++;
      assert(nfull(down[1]));
      down[1] ! plan, 0;
      begin_epoch(true)
    }
#ifndef BUG_STAY
  :: d_step { me == 0 && replay && mine != 0 -> assert(nfull(down[1])); begin_epoch(false); down[1] ! break_plan, 0 }
#endif
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
        assert(!replay && (told & n) == n);
        for (x : 0 .. TENSORS - 1) {
          if
          :: (n & BIT(x)) != 0 -> apply(x)
          :: else
          fi
        }
      :: x == units ->
        assert(replay && n > units_decided && n <= units_told);
        for (x : units_decided .. n - 1) { apply(x % TENSORS) }
        units_decided = n
      :: x == plan -> assert(!replay); begin_epoch(true)
      :: x == break_plan -> assert(replay); begin_epoch(false)
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
