/* How the ranks of one host agree, for Spin: docs/models/README.md.

   A tensor has one shared word (generation, count). The rank whose arrival completes the count starts the next generation
   and appends the tensor to a log: it reserves a position, and fills it in a second step. Seals cut the log into batches:
   an idle rank seals from the last end to the first position that is not filled. All ranks execute the batches in order; a
   batch is a collective, which is complete at a rank once all ranks have started it. A rank may let the log grow: later
   positions lie in another arc, whose number is changed together with the tail. One rank may die anywhere. */

#ifndef RANKS
#define RANKS 3
#endif
#ifndef TENSORS
#define TENSORS 3
#endif
#ifndef STEPS
#define STEPS 2
#endif
#ifndef DEATHS
#define DEATHS 1
#endif
#ifndef GROWTHS
#define GROWTHS 0
#endif
#define LOG (TENSORS * STEPS)
#define ALL ((1 << RANKS) - 1)

byte generation[TENSORS];
byte count[TENSORS];
#if GROWTHS
byte entries[2 * LOG]; /* of both arcs: tensor + 1; 0: not filled */
#define IN_LATER_ARC(position) (newest == 1 && position >= begin)
#define ENTRY(position) entries[(IN_LATER_ARC(position) -> LOG + position : position)]
#else
byte entries[LOG];
#define ENTRY(position) entries[position]
#endif
byte tail;
bit tail_arc;    /* changed and read together with the tail */
bit newest;      /* the newest arc that ranks know of */
byte begin;      /* of the later arc */
bit growing;     /* a rank has, or had, the lock that growing takes */
byte seals[LOG]; /* by the begin of the batch: its end; 0: open */
byte started[LOG];
byte deaths;

#define FAILED (deaths > 0) /* all ranks that wait see it */
#define MAY_DIE \
  if \
  :: true \
  :: atomic { deaths < DEATHS -> deaths++; goto dead } \
  fi

#define CAN_SUBMIT(t) (submitted[t] < STEPS && submitted[t] == finished[t])

#ifdef BUG_SEAL_UNFILLED
#define MAY_SEAL(at) (at < tail)
#else
#define MAY_SEAL(at) (ENTRY(at) != 0)
#endif

#ifdef BUG_SEAL_TWICE
#define MAY_REPLACE(seal) (true)
#else
#define MAY_REPLACE(seal) (seal == 0)
#endif

#ifdef BUG_NO_WATCH
#define NOTICED (false)
#else
#define NOTICED FAILED
#endif

#ifdef BUG_ARC_UNPUBLISHED
#define PUBLISHES(arc) (false)
#else
#define PUBLISHES(arc) (arc == 1)
#endif

#ifdef BUG_ARC_STALE
#define SAME_TAIL(seen) (true)
#else
#define SAME_TAIL(seen) (tail == seen)
#endif

proctype rank(byte me) {
  byte submitted[TENSORS];
  byte finished[TENSORS];
  byte from, end, t, position;
  bit arc;
  bool running, last;
again:
  do
  :: d_step { CAN_SUBMIT(0) -> t = 0 }; goto submit
#if TENSORS > 1
  :: d_step { CAN_SUBMIT(1) -> t = 1 }; goto submit
#endif
#if TENSORS > 2
  :: d_step { CAN_SUBMIT(2) -> t = 2 }; goto submit
#endif
#if GROWTHS
  :: d_step { !growing && tail < LOG -> growing = true }; goto grow
#endif
  :: d_step { !running && from < LOG && seals[from] == 0 && MAY_SEAL(from) -> end = from + 1 }; goto seal
  :: d_step {
      !running && from < LOG && seals[from] != 0 ->
      assert((started[from] & (1 << me)) == 0);
      end = seals[from];
      assert(end > from && end <= LOG);
      for (t : from .. end - 1) {
        assert(ENTRY(t) != 0);
        assert(finished[ENTRY(t) - 1] + 1 == submitted[ENTRY(t) - 1]) /* ready here, and not executed yet */
      }
      t = 0;
      running = true;
      started[from] = started[from] | (1 << me)
    }
  :: d_step {
      running && started[from] == ALL ->
      assert(seals[from] == end);
      for (t : from .. end - 1) { finished[ENTRY(t) - 1]++ }
      t = 0;
      from = end;
      end = 0;
      running = false
    }
  :: atomic { from == LOG -> goto done }
  :: atomic { NOTICED -> goto failed }
  :: atomic { deaths < DEATHS -> deaths++; goto dead }
submit: /* the description is written; the word is changed by one CAS */
    MAY_DIE;
    d_step {
      assert(generation[t] == submitted[t] && count[t] < RANKS);
      submitted[t]++;
      count[t]++;
      if
      :: count[t] == RANKS -> count[t] = 0; generation[t]++; last = true
      :: else -> t = 0
      fi
    }
    if
    :: last ->
      MAY_DIE;
      d_step { last = false; position = tail; arc = tail_arc; tail++; assert(position < LOG && ENTRY(position) == 0) }
      MAY_DIE;
      d_step { /* what others do between these two steps changes nothing for this rank */
        if
        :: PUBLISHES(arc) -> newest = 1
        :: else
        fi;
        ENTRY(position) = t + 1;
        t = 0;
        position = 0;
        arc = 0
      }
    :: else
    fi;
    goto again;
seal:
    do /* it may see fewer filled positions than there are when it seals */
    :: d_step { end < LOG && MAY_SEAL(end) -> end++ }
    :: break
    od;
    MAY_DIE;
    d_step { /* one CAS */
      if
      :: MAY_REPLACE(seals[from]) -> seals[from] = end
      :: else
      fi;
      end = 0
    }
#if GROWTHS
    goto again;
grow:
    do
    :: d_step { true -> position = tail; begin = tail };
      MAY_DIE;
      if
      :: d_step { SAME_TAIL(position) -> tail_arc = 1 }; break /* one CAS */
      :: d_step { !SAME_TAIL(position) -> skip }
      fi
    od;
    MAY_DIE;
    d_step { newest = 1; position = 0 }
#endif
  od;
done:
  goto over;
failed:
  goto over;
dead:
over:
  skip
}

init {
  atomic {
    byte i;
    for (i : 0 .. RANKS - 1) { run rank(i) }
  }
}
