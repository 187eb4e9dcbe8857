/* SPDX-License-Identifier: MIT */
/*
 * queue-check.pml - the properties
 *
 *   P1 exclusion               g_grant(): every request before the one granted now is granted and shared, and so is it
 *   P2 order                   the same: no grant passes a waiter
 *   P3 no reuse while linked   assertions before each set_free(); in judge_y(): no sound walk meets a FREE record
 *   P4 marks                   g_unlink(): a bad end is on record before it leaves the queue; M4_: no report is false
 *                              or repeated
 *   P5 truth                   an owner that gets "released", "renewed", "upgraded" or "downgraded" was not overtaken
 *                              (over, lost); an owner that gets LOST has lost its request (lost)
 *   P6 tokens                  g_grant(): above the token of every exclusive hold before; g_again(): still the last one
 *   P7 leaving                 do_ret(): a thread that leaves the queue leaves no request of its own in it
 *   P8 no death hidden         A4: no thread joins a holder that was dead when it checked
 *   P9 no lost wake-up         SPIN's "invalid end state": all asleep, without a waker.  g_nobody_forgotten() with
 *                              LONGHOLD: no waiter sleeps although its turn has come.  At the end nothing is left over
 */

/* P1, P2, P6: request r becomes granted now. */
inline g_grant(r)
{
	i_ = 1;
	do
	:: i_ > NREC -> break
	:: else ->
		if
		:: i_ != r && HAS(linked, i_) && LIVE(word[i_]) && ticket[i_] < ticket[r] ->
			/* Order and exclusion in one: every request before r is granted and shared, and so is r. */
			assert(HELD(word[i_]));
			assert(!MX(word[r]) && (!MX(word[i_]) || HAS(flipped, i_)))
		:: else
		fi;
		i_++
	od;
	assert(ticket[r] > last_x);			/* P6 */
	if
	:: MX(word[r]) -> last_x = ticket[r]
	:: else
	fi;
	i_ = 0;
	do
	:: i_ == NPROC -> break
	:: else ->
		if
		:: i_ != rowner[r] && HAS(bel, i_) && (MX(word[r]) || HAS(belx, i_)) -> over = over | BIT(i_)
		:: else
		fi;
		i_++
	od;
	if
	:: HAS(dead | stopped, rowner[r])
	:: else ->
		bel = bel | BIT(rowner[r]);
		belx = (belx & ~BIT(rowner[r])) | (MX(word[r]) << rowner[r]);
		over = over & ~BIT(rowner[r]);
		lost = lost & ~BIT(rowner[r])
	fi
}

/* P1: the bargeable hold r is resumed: no other request has been granted. */
inline g_again(r)
{
	i_ = 1;
	do
	:: i_ > NREC -> break
	:: else -> assert(i_ == r || !HAS(linked, i_) || !HELD(word[i_])); i_++
	od;
	assert(HAS(linked, r) && ticket[r] == last_x);	/* P6: nor was there another hold since */
	i_ = 0;
	do
	:: i_ == NPROC -> break
	:: else ->
		if
		:: i_ != _pid && HAS(bel, i_) -> over = over | BIT(i_)
		:: else
		fi;
		i_++
	od;
	bel = bel | BIT(_pid);
	belx = belx | BIT(_pid);
	over = over & ~BIT(_pid);
	lost = lost & ~BIT(_pid)
}

inline g_forget()
{
	bel = bel & ~BIT(_pid);
	belx = belx & ~BIT(_pid);
	over = over & ~BIT(_pid);
	lost = lost & ~BIT(_pid)
}

inline g_unlink(r)
{
	assert(HAS(linked, r));
	linked = linked & ~BIT(r);
#ifdef MARKS
	/* P4: a bad end is on record before it leaves the queue. */
	assert(!HAS(died, ticket[r]) || HAS(told, ticket[r]) || PENDING(mark))
#endif
}

/* The hold of record r, whose word was w, ended badly. */
inline g_ended(r, w)
{
	lost = lost | (HAS(bel, rowner[r]) << rowner[r]);
#ifdef MARKS
	died = died | ((HAS(linked, r) && ST(w) == S_ENTERED && MX(w) && (mark & ROBUST)) << ticket[r])
#endif
}

/* P9, while others hold for long: no waiter sleeps although its turn has come. */
inline g_nobody_forgotten()
{
	i_ = 0;
	do
	:: i_ == NPROC -> break
	:: else ->
		if
		:: slp[i_] != 0 && ST(word[slp[i_]]) == S_WAITING ->
			j_ = PREV(word[slp[i_]]);
			do
			:: j_ == 0 -> break
			:: j_ != 0 && (ENDED(word[j_]) || (ST(word[j_]) != S_COOLING && HAS(dead, rowner[j_]))) ->
				j_ = PREV(word[j_])
			:: else -> break
			od;
			assert(j_ != 0);
			assert(ST(word[PREV(word[slp[i_]])]) != S_LINGERING);
			assert(MX(word[slp[i_]]) || MX(word[j_]) || !HELD(word[j_]))
		:: else
		fi;
		i_++
	od
}

/* P9: the hold me begins to cool down: a sleeper behind it must be woken, since it may end earlier than the sleeper
 * knew. */
inline g_must_be_nudged()
{
	i_ = 0;
	do
	:: i_ == NPROC -> break
	:: else ->
		if
		:: slp[i_] != 0 && PREV(word[slp[i_]]) == me -> nudge = nudge | BIT(i_)
		:: else
		fi;
		i_++
	od
}

/* P9: nothing is left over, unless a thread was killed or stopped in the middle. */
inline g_nothing_left()
{
	i_ = 1;
	do
	:: i_ > NREC -> break
	:: else ->
		assert(dead != 0 || stopped != 0 || ST(word[i_]) == S_FREE || ST(word[i_]) == S_COOLING || ST(word[i_]) == S_LINGERING ||
			!HAS(linked, i_));
		i_++
	od
}
