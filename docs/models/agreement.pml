/* How the ranks of one host agree, for Spin: docs/models/README.md.

   A tensor has one shared word (generation, count). The rank whose arrival completes the count starts the next generation
   and appends the tensor to a log: it reserves a position, and fills it in a second step. Seals cut the log into batches:
   an idle rank seals from the last end to the first position that is not filled. All ranks execute the batches in order; a
   batch is a collective, which is complete at a rank once all ranks have started it. One rank may die anywhere. */

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
#define LOG (TENSORS * STEPS)
#define ALL ((1 << RANKS) - 1)

byte generation[TENSORS];
byte count[TENSORS];
byte entries[LOG]; /* tensor + 1; 0: not filled */
byte tail;
byte seals[LOG]; /* end of the batch; 0: open */
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
#define MAY_SEAL(at) (entries[at] != 0)
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

proctype rank(byte me) {
  byte submitted[TENSORS];
  byte finished[TENSORS];
  byte batch, from, end, t, position;
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
  :: d_step { !running && from < LOG && seals[batch] == 0 && MAY_SEAL(from) -> end = from + 1 }; goto seal
  :: d_step {
      !running && from < LOG && seals[batch] != 0 ->
      assert((started[batch] & (1 << me)) == 0);
      end = seals[batch];
      assert(end > from && end <= LOG && (batch == 0 || seals[batch - 1] == from));
      for (t : from .. end - 1) {
        assert(entries[t] != 0);
        assert(finished[entries[t] - 1] + 1 == submitted[entries[t] - 1]) /* ready here, and not executed yet */
      }
      t = 0;
      running = true;
      started[batch] = started[batch] | (1 << me)
    }
  :: d_step {
      running && started[batch] == ALL ->
      assert(seals[batch] == end);
      for (t : from .. end - 1) { finished[entries[t] - 1]++ }
      t = 0;
      from = end;
      end = 0;
      batch++;
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
      d_step { last = false; position = tail; tail++; assert(position < LOG && entries[position] == 0) }
      MAY_DIE;
      d_step { entries[position] = t + 1; t = 0; position = 0 }
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
      :: MAY_REPLACE(seals[batch]) -> seals[batch] = end
      :: else
      fi;
      end = 0
    }
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
