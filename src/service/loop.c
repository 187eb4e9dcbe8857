/* SPDX-License-Identifier: MIT */
/*
 * loop.c - event loops: open, close, acquire, collect, cancel
 *
 * A loop is used by one thread at a time, so what only its calls touch needs no lock: its participant, with records and
 * keys of its own.  A free key is taken as by any thread.
 */
#include "service/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hold/acquire-fast.h"
#include "hold/barge.h"
#include "segment/global-keys.h"
#include "service/service.h"
#include "sys/error.h"
#include "sys/sized.h"

#define LOOP_MAGIC UINT64_C(0x706f6f6c206b636f)

/* As loop_check_told(), without the message. */
static int loop_check(const struct lockshm_loop *loop)
{
	if (unlikely(!loop) || unlikely(loop->magic != LOOP_MAGIC))
		return LOCKSHM_INVALID;
	return likely(loop->epoch == process_epoch()) ? 0 : LOCKSHM_NOT_HELD;
}

int loop_check_told(const struct lockshm_loop *loop, struct lockshm_error *error)
{
	int err = loop_check(loop);

	if (err == LOCKSHM_NOT_HELD)
		return error_set(error, err, "the loop belongs to the parent process: open one in this process");
	return err ? error_set(error, err, "loop is NULL or closed") : 0;
}

/* ---------------------------------------------------------------- open */

/* Its own descriptor is to be read as well. */
static int make_descriptor(struct lockshm_loop *loop, struct lockshm_error *error)
{
	int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), e;

	loop->own_fd = true;
	if (fd >= 0 && descriptor_keep(&loop->file, fd))
		return 0;
	e = errno;
	if (fd >= 0)
		close(fd);
	return error_system(error, LOCKSHM_SYSTEM, e, "eventfd");
}

/* What no other end is read of would never wake the loop.  An eventfd has no file type. */
static bool has_reader(int fd, const struct stat *st)
{
	struct sockaddr_storage peer;
	socklen_t len = sizeof(peer);

	if (S_ISSOCK(st->st_mode))
		return getpeername(fd, (struct sockaddr *)(void *)&peer, &len) == 0;
	return S_ISFIFO(st->st_mode) || (st->st_mode & S_IFMT) == 0;
}

/* A descriptor that blocks would stop the threads that write to it. */
static int copy_descriptor(struct lockshm_loop *loop, int fd, struct lockshm_error *error)
{
	int flags = fcntl(fd, F_GETFL);
	struct stat st;

	if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY)
		return error_set(error, LOCKSHM_INVALID, "fd %d is not open for writing", fd);
	if (!(flags & O_NONBLOCK))
		return error_set(error, LOCKSHM_INVALID, "fd %d may block: set O_NONBLOCK", fd);
	if (!descriptor_duplicate(&loop->file, fd, 0) || fstat(loop->file.fd, &st) != 0)
		return error_system(error, LOCKSHM_SYSTEM, errno, "no duplicate of fd");
	if (!has_reader(loop->file.fd, &st))
		return error_set(error, LOCKSHM_INVALID, "fd %d is no eventfd, pipe or connected socket", fd);
	loop->kind = S_ISSOCK(st.st_mode) ? DESCRIPTOR_SOCKET :
		     S_ISFIFO(st.st_mode) ? DESCRIPTOR_PIPE :
					    DESCRIPTOR_EVENTFD;
	return 0;
}

static int check_open(const struct lockshm *s, struct lockshm_loop **out, int fd, struct lockshm_error *error)
{
	if (!segment_valid(s))
		return error_set(error, LOCKSHM_INVALID, "segment is NULL or closed");
	if (!out)
		return error_set(error, LOCKSHM_INVALID, "out is NULL");
	if (fd < -1)
		return error_set(error, LOCKSHM_INVALID, "fd is %d, must be a descriptor or -1", fd);
	if (s->read_only)
		return error_set(error, LOCKSHM_PERMISSION, "the segment is open read-only");
	if (!s->has_doorbells)
		return error_set(error, LOCKSHM_VERSION,
				 "the segment was made by a library without event loops: use another one, or remove it "
				 "when its users have ended");
	return 0;
}

static int make_tables(struct lockshm *s, struct lockshm_error *error)
{
	int err;

	pthread_mutex_lock(&s->lock);
	err = s->waits ? 0 : waits_make(s);
	pthread_mutex_unlock(&s->lock);
	return err ? error_system(error, err, ENOMEM, "no memory for the waits of event loops") : 0;
}

/* LOOP_COUNTS = they are taken.  The lock held. */
static uint32_t take_place(struct waits *all)
{
	uint32_t place = 0;

	while (place < LOOP_COUNTS && (all->places & 1u << place))
		place++;
	if (place < LOOP_COUNTS)
		all->places |= 1u << place;
	return place;
}

/* The service thread has joined. */
static void begin(struct lockshm_loop *loop)
{
	struct lockshm *s = loop->s;

	loop->all = s->waits;
	waits_lock(loop->all);
	loop->all->process = service_participant(s);
	loop->place = take_place(loop->all);
	cds_list_add(&loop->of_all, &loop->all->loops);
	participant_begin_share(loop->all->process, loop->self, loop->place);
	waits_unlock(loop->all);
	/* From now on it sleeps at its doorbell, too. */
	renewals_lock(s);
	renewals_ring(s->renewals);
	renewals_unlock(s);
}

/* The reference to the segment is the loop's, until it is closed. */
static int make(struct lockshm_loop *loop, int fd, struct lockshm_error *error)
{
	int err = fd < 0 ? make_descriptor(loop, error) : copy_descriptor(loop, fd, error);

	if (err)
		return err;
	if (!process_ref_segment(loop->s))
		return error_set(error, LOCKSHM_INVALID, "segment is closed");
	err = service_join(loop->s, error);
	if (!err)
		err = make_tables(loop->s, error);
	if (err)
		segment_unref(loop->s);
	else
		begin(loop);
	return err;
}

static struct lockshm_loop *new_loop(struct lockshm *s)
{
	struct lockshm_loop *loop = calloc(1, sizeof(*loop));

	if (!loop)
		return NULL;
	loop->self = calloc(1, sizeof(*loop->self));
	if (!loop->self) {
		free(loop);
		return NULL;
	}
	loop->s = s;
	loop->file = DESCRIPTOR_NONE;
	loop->refs = 1;
	loop->epoch = process_epoch();
	loop->number = process_unique();
	CDS_INIT_LIST_HEAD(&loop->waiting);
	CDS_INIT_LIST_HEAD(&loop->decided);
	CDS_INIT_LIST_HEAD(&loop->to_write);
	return loop;
}

LOCKSHM_EXPORT int lockshm_loop_open(lockshm_loop_t **out, lockshm_t *segment, int fd, struct lockshm_error *error)
{
	struct lockshm_loop *loop;
	int err;

	error_set(error, 0, "%s", "");
	if (out)
		*out = NULL;
	err = check_open(segment, out, fd, error);
	if (err)
		return err;
	if (segment_is_gone(segment))
		return error_set(error, LOCKSHM_NO_SEGMENT, "the segment was removed: open it again");
	loop = new_loop(segment);
	if (!loop)
		return error_system(error, LOCKSHM_NO_MEMORY, ENOMEM, "no memory for the loop");
	err = make(loop, fd, error);
	if (err) {
		descriptor_close(&loop->file);
		free(loop->self);
		free(loop);
		return err;
	}
	loop->magic = LOOP_MAGIC;
	*out = loop;
	return 0;
}

LOCKSHM_EXPORT int lockshm_loop_fd(const lockshm_loop_t *loop)
{
	int err = loop_check(loop);

	if (err)
		return err;
	return descriptor_is_own(&loop->file) ? loop->file.fd : LOCKSHM_SYSTEM;
}

/* ---------------------------------------------------------------- close */

/* True = it was the own descriptor, and had been written to. */
static bool empty_descriptor(struct lockshm_loop *loop)
{
	uint64_t n;
	int cancel;

	if (!loop->own_fd || !__atomic_exchange_n(&loop->written, 0, __ATOMIC_ACQ_REL))
		return false;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	if (descriptor_is_own(&loop->file) && read(loop->file.fd, &n, sizeof(n)) < 0)
		n = 0;
	pthread_setcancelstate(cancel, NULL);
	return true;
}

static struct wait *take_any(struct lockshm_loop *loop)
{
	struct cds_list_head *list;
	struct wait *w = NULL;

	waits_lock(loop->all);
	list = cds_list_empty(&loop->waiting) ? &loop->decided : &loop->waiting;
	if (!cds_list_empty(list)) {
		w = cds_list_first_entry(list, struct wait, of_loop);
		waits_remove(loop->all, w);
	}
	waits_unlock(loop->all);
	return w;
}

static void end_one(struct wait *w)
{
	(void)wait_give_up(w);
	if (w->many)
		many_undo(w->many);
	wait_end_awaited(w);
	wait_free(w);
}

LOCKSHM_EXPORT int lockshm_loop_close(lockshm_loop_t *loop)
{
	int err = loop_check(loop), cancel;
	struct lockshm *s;
	struct wait *w;
	bool last;

	if (err)
		return err;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	s = loop->s;
	while ((w = take_any(loop)) != NULL)
		end_one(w);
	/* A child may have a copy of it, which keeps it in an epoll instance. */
	(void)empty_descriptor(loop);
	barge_take(loop->self, loop->number);
	barge_end(loop->self);
	loop->magic = 0;
	waits_lock(loop->all);
	waits_end_losses(loop->all, loop);
	participant_end_share(loop->self, loop->all->process);
	cds_list_del(&loop->of_all);
	if (loop->place < LOOP_COUNTS)
		loop->all->places &= ~(1u << loop->place);
	last = loop_put(loop);
	waits_unlock(s->waits);
	if (last)
		loop_free(loop);
	segment_unref(s);
	pthread_setcancelstate(cancel, NULL);
	return 0;
}

/* ---------------------------------------------------------------- acquire */

int loop_check_hold(struct lockshm_loop *loop, const lockshm_hold_t *hold, struct lockshm_error *error)
{
	bool awaited = false;

	if (wait_is_awaited(hold)) {
		waits_lock(loop->all);
		awaited = waits_find_awaited(loop->all, hold_of(hold)->index, hold) != NULL;
		waits_unlock(loop->all);
	}
	return awaited ? error_set(error, LOCKSHM_INVALID, "this hold is awaited: cancel it first, or use another one") : 0;
}

int loop_check_request(struct lockshm_loop *loop, const struct lockshm_request *q, const lockshm_hold_t *hold,
		       struct lockshm_error *error)
{
	struct lockshm_request plain = *q;
	int err;

	if (!hold)
		return error_set(error, LOCKSHM_INVALID, "hold is NULL");
	err = loop_check_hold(loop, hold, error);
	if (err)
		return err;
	plain.flags &= ~LOCKSHM_TELL_LOSS;
	err = acquire_check(&plain, hold, error);
	if (err)
		return err;
	if ((q->flags & LOCKSHM_TELL_LOSS) && (q->flags & LOCKSHM_BARGE))
		return error_set(error, LOCKSHM_INVALID, "LOCKSHM_BARGE is for holds without LOCKSHM_TELL_LOSS");
	return q->flags & LOCKSHM_GLOBAL ? lease_wait_check(loop->s, q, error) : 0;
}

void loop_set_hold(const struct lockshm_loop *loop, const struct lockshm_request *q, struct hold *h)
{
	if (q->flags & LOOP_TENDS) {
		hold_set_tended(h);
		tend_scan_in_time(loop->s, segment_now_at_most(loop->s), loop_tend_ttl(q), q->flags & LOCKSHM_TELL_LOSS);
		return;
	}
	hold_set_of_process(h);
	if (!(q->flags & LOCKSHM_BARGE))
		return;
	hold_open(h);
	h->loop = loop->number;
	hold_close(h);
}

void loop_tend_terms(struct lockshm_loop *loop, const struct lockshm_request *q, lockshm_hold_t *hold, void *user,
		     struct tend_terms *out)
{
	bool tells = q->flags & LOCKSHM_TELL_LOSS;

	*out = (struct tend_terms){ hold, user, tells ? loop : NULL, loop_tend_ttl(q), q->max_hold_ns, tells };
}

/* The fast path.  @q: its ttl is the first one; @plain: but for LOOP_TENDS. */
static ALWAYS_INLINE int acquire_tended(struct lockshm_loop *loop, const struct lockshm_request *q, lockshm_hold_t *hold,
					void *user, bool plain)
{
	struct tend_terms terms;
	int status;

	tend_look_at_free(loop->self);
	if (q->flags & LOOP_TENDS) {
		loop_tend_terms(loop, q, hold, user, &terms);
		loop->self->tending = &terms;
	}
	status = plain ? take_free(loop->self, q, NULL, hold_of(hold), true, true) :
			 acquire_if_free(loop->self, q, NULL, hold_of(hold));
	loop->self->tending = NULL;
	if (status != NOT_TAKEN) {
		loop->self->free_request = hold_of(hold)->index;
		loop_set_hold(loop, q, hold_of(hold));
	}
	return status;
}

/* @q: checked.  @report: the caller's, for the outcome. */
static int acquire(struct lockshm_loop *loop, const struct lockshm_request *q, lockshm_hold_t *hold, void *user,
		   struct lockshm_report *report)
{
	struct lockshm_error *error = q->report ? &q->report->error : NULL;
	struct lockshm_request first = *q;
	struct hold *h = hold_of(hold);
	struct wait *w;
	int status = NOT_TAKEN;

	if (q->flags & LOCKSHM_BARGE)
		barge_take(loop->self, loop->number);
	first.ttl_ns = request_first_ttl(q);
	if (!(q->flags & LOCKSHM_GLOBAL))
		status = acquire_tended(loop, &first, hold, user, false);
	if (status != NOT_TAKEN)
		return status;
	w = wait_make(loop, &first, hold, user, report);
	if (!w)
		return error_system(error, LOCKSHM_NO_MEMORY, ENOMEM, "no memory for a wait");
	status = wait_submit(w, &first, q->report);
	if (status == LOCKSHM_PENDING)
		return status;
	if (status == 0)
		status = wait_fill_hold(w, h, q->report);
	else
		acquire_count_failure(loop->self, status);
	wait_free(w);
	return status;
}

/* @q: a copy, which is used up, and whose report has the library's size.  @report: as for acquire(). */
static int acquire_own_sizes(struct lockshm_loop *loop, struct lockshm_request *q, lockshm_hold_t *hold, void *user,
			     struct lockshm_report *report)
{
	struct lockshm_error *error = q->report ? &q->report->error : NULL;
	int err;

	if (q->report)
		report_clear(q->report);
	err = loop_check_told(loop, error);
	if (!err && segment_makes_global(loop->s, q->key, q->key_len))
		q->flags |= LOCKSHM_GLOBAL;
	if (!err)
		err = loop_check_request(loop, q, hold, error);
	return err ? err : acquire(loop, q, hold, user, report);
}

/* The program was compiled with another header, or its sizes are wrong. */
static __attribute__((noinline)) int acquire_other_sizes(struct lockshm_loop *loop,
							 const struct lockshm_request *request, lockshm_hold_t *hold,
							 void *user)
{
	struct lockshm_report own = LOCKSHM_REPORT_INIT, *report;
	struct lockshm_request q = LOCKSHM_REQUEST_INIT;
	int err = sized_in(&q, sizeof(q), request, REQUEST_SIZE_0_1, "request", &own.error);

	report = q.report;
	if (report && !sized_good(report, REPORT_SIZE_0_1))
		return LOCKSHM_INVALID;
	q.report = report ? &own : NULL;
	if (!err)
		err = acquire_own_sizes(loop, &q, hold, user, report);
	if (report)
		sized_out(report, &own, sizeof(own));
	return err;
}

/* Every check, and requests of any size. */
static __attribute__((noinline)) int acquire_careful(struct lockshm_loop *loop, const struct lockshm_request *request,
						     lockshm_hold_t *hold, void *user)
{
	struct lockshm_request q;

	if (!request)
		return LOCKSHM_INVALID;
	if (request->size != sizeof(*request) || (request->report && request->report->size != sizeof(*request->report)))
		return acquire_other_sizes(loop, request, hold, user);
	q = *request;
	return acquire_own_sizes(loop, &q, hold, user, q.report);
}

/* Plain but for the flags of a tended hold, and without a bound on renewing. */
static bool is_plain_tended(const struct lockshm_request *q)
{
	unsigned flags;

	if (q->size != sizeof(*q))
		return false;
	flags = q->flags & LOOP_TENDS;
	if (flags == 0 || !request_is_plain_but(q, flags) || q->max_hold_ns != 0)
		return false;
	return !(flags & LOCKSHM_AUTO_RENEW) || (q->ttl_ns >= LOCKSHM_AUTO_RENEW_TTL_MIN && q->ttl_ns != LOCKSHM_FOREVER);
}

/* Off the straight line, which keeps that short. */
static __attribute__((noinline)) int acquire_not_plain(struct lockshm_loop *loop, const struct lockshm_request *request,
							lockshm_hold_t *hold, void *user)
{
	int status = NOT_TAKEN;

	if (likely(!loop_check(loop)) && likely(request != NULL) && likely(hold != NULL) &&
	    likely(hold_of(hold)->magic == 0) && is_plain_tended(request))
		status = acquire_tended(loop, request, hold, user, true);
	return likely(status != NOT_TAKEN) ? status : acquire_careful(loop, request, hold, user);
}

LOCKSHM_EXPORT int lockshm_loop_acquire(lockshm_loop_t *loop, const struct lockshm_request *request,
					lockshm_hold_t *hold, void *user)
{
	struct hold *h = hold_of(hold);
	int status;

	if (unlikely(loop_check(loop)) || unlikely(!request) || unlikely(!h) || unlikely(h->magic != 0) ||
	    unlikely(!request_is_plain(request)))
		return acquire_not_plain(loop, request, hold, user);
	if (unlikely(loop->self->tended))
		tend_look_at_plain(loop->self);
	status = take_free(loop->self, request, NULL, h, true, false);
	if (unlikely(status == NOT_TAKEN))
		return acquire_careful(loop, request, hold, user);
	/* Most likely released by the next time, by a thread that leaves no trace of that here. */
	loop->self->free_request = h->index;
	hold_set_of_process(h);
	return status;
}

/* ---------------------------------------------------------------- collect */

static bool has_outcome(struct lockshm_loop *loop)
{
	bool any;

	waits_lock(loop->all);
	any = loop_has_outcome(loop);
	waits_unlock(loop->all);
	return any;
}

/* One of the records whose hold may be lost; 0 = none.  The lock held. */
static uint32_t take_lost(struct lockshm_loop *loop)
{
	uint32_t index = loop->lost;
	struct tend *t = tend_of(loop->s, index);

	if (index == 0)
		return 0;
	loop->lost = t->next;
	t->listed = false;
	return index;
}

/*
 * A decided wait, or a record whose hold may be lost.  The own descriptor is readable while there is one: it is emptied
 * with the last, and written to if another came.  False = none.
 */
static bool take_outcome(struct lockshm_loop *loop, struct wait **w, uint32_t *lost)
{
	bool last;

	*w = NULL;
	*lost = 0;
	waits_lock(loop->all);
	if (!cds_list_empty(&loop->decided)) {
		*w = cds_list_first_entry(&loop->decided, struct wait, of_loop);
		waits_remove(loop->all, *w);
	} else {
		*lost = take_lost(loop);
	}
	last = !loop_has_outcome(loop);
	if (last)
		__atomic_store_n(&loop->told, 0, __ATOMIC_RELEASE);
	waits_unlock(loop->all);
	if (last && empty_descriptor(loop) && has_outcome(loop))
		loop_write(loop);
	return *w || *lost;
}

/* Its host lease is lost, and the bridge has not ended it: as a release does that.  Only this thread fills the record. */
static void end_local(struct lockshm *s, uint32_t index)
{
	struct shm_request *r = &s->requests[index];
	uint64_t w = load_acquire(&r->word);

	while (word_holds(w))
		if (cas(&r->word, &w, word_with_state(w, REQUEST_EXPIRED))) {
			(void)queue_advance_tail(s, &s->entries[load_relaxed32(&r->entry)]);
			return;
		}
}

/* Looked at again here: a release, or a new use of the record, drops it.  The swap is that against a release at the same
 * moment. */
static bool collect_loss(struct lockshm_loop *loop, uint32_t index, struct lockshm_outcome *out)
{
	struct tend *t = tend_of(loop->s, index);
	uint64_t use;

	if (t->loop != loop || !tend_is_lost(loop->s, index, &use))
		return false;
	*out = (struct lockshm_outcome){ sizeof(*out), LOCKSHM_LOST, t->hold, t->user, NULL };
	if (!cas_from(&t->use, use, 0))
		return false;
	end_local(loop->s, index);
	return true;
}

/* The end of @w, which is freed. */
static void give_outcome(struct wait *w, int status, struct lockshm_report *own, struct lockshm_outcome *out)
{
	*out = (struct lockshm_outcome){ sizeof(*out), status, w->hold, w->user, w->report };
	if (status == 0 && !w->many)
		out->status = wait_fill_hold(w, hold_of(w->hold), w->report ? own : NULL);
	if (status < 0)
		acquire_count_failure(w->loop->self, status);
	own->waited_ns = own->slept_ns = segment_now(w->loop->s) - w->begun;
	if (status != LOCKSHM_TIMEOUT && status != LOCKSHM_BUSY)
		memset(&own->blocker, 0, sizeof(own->blocker));
	if (w->report)
		sized_out(w->report, own, sizeof(*own));
	wait_free(w);
}

/* False = it waits again. */
static bool collect(struct wait *w, struct lockshm_outcome *out)
{
	struct lockshm_report own = LOCKSHM_REPORT_INIT;
	int status = wait_collect(w, &own);

	if (w->many && status != LOCKSHM_PENDING)
		status = many_go_on(w, status, &own);
	if (status == LOCKSHM_PENDING)
		return false;
	give_outcome(w, status, &own, out);
	return true;
}

LOCKSHM_EXPORT int lockshm_loop_next(lockshm_loop_t *loop, struct lockshm_outcome *outcome)
{
	struct lockshm_outcome own;
	struct wait *w;
	uint32_t lost;
	int err = loop_check(loop);

	if (err)
		return err;
	if (!outcome || !sized_good(outcome, OUTCOME_SIZE_0_1))
		return LOCKSHM_INVALID;
	while (take_outcome(loop, &w, &lost)) {
		if (w ? !collect(w, &own) : !collect_loss(loop, lost, &own))
			continue;
		sized_out(outcome, &own, sizeof(own));
		return 1;
	}
	return 0;
}

/* ---------------------------------------------------------------- cancel */

LOCKSHM_EXPORT int lockshm_loop_cancel(lockshm_loop_t *loop, lockshm_hold_t *hold)
{
	struct wait *w;
	bool granted;
	int err = loop_check(loop);

	if (err)
		return err;
	if (!hold)
		return LOCKSHM_INVALID;
	waits_lock(loop->all);
	w = waits_find_hold(loop->all, hold);
	if (w && w->loop != loop)
		w = NULL;
	if (w)
		waits_remove(loop->all, w);
	waits_unlock(loop->all);
	if (!w)
		return LOCKSHM_NOT_HELD;
	granted = wait_give_up(w) && !w->lease;
	if (w->many)
		many_undo(w->many);
	wait_end_awaited(w);
	wait_free(w);
	return granted;
}
