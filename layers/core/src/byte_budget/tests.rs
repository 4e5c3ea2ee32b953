use std::pin::pin;
use std::sync::atomic::AtomicUsize;
use std::task::{Wake, Waker};

use proptest::prelude::*;

use super::state::MAX_WAITERS;
use super::*;

fn owner(number: u64) -> BudgetOwner {
    BudgetOwner(number)
}

fn held(budget: &ByteBudget) -> usize {
    budget.lock().check();
    budget.counts().held
}

fn noop(future: Pin<&mut GrowFuture<'_>>) -> Poll<Result<(), BudgetExceededError>> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn holds_bytes_until_the_last_slice_is_dropped() {
    let budget = ByteBudget::new(400);
    let mut reservation = budget.open(owner(1));
    reservation.try_grow(60).unwrap();
    let bytes = reservation.attach(vec![7; 60]);
    let slice = bytes.slice(10..20);
    drop(bytes);
    assert_eq!((held(&budget), &slice[..]), (60, &[7; 10][..]));
    drop(slice);
    assert_eq!(held(&budget), 0);
}

#[test]
fn owner_gets_half_of_remaining_bytes() {
    let budget = ByteBudget::new(400);
    let mut first = budget.open(owner(1));
    first.try_grow(200).unwrap();
    assert_eq!(first.try_grow(1), Err(BudgetExceededError));
    assert_eq!(budget.open(owner(1)).try_grow(1), Err(BudgetExceededError));
    let others: Vec<_> = [(2, 100), (3, 50), (4, 25)]
        .into_iter()
        .map(|(number, bytes)| {
            assert_eq!(budget.room(owner(number)), bytes);
            let mut other = budget.open(owner(number));
            other.try_grow(bytes).unwrap();
            other
        })
        .collect();
    assert_eq!(budget.room(owner(9)), 12);
    drop(others);
    assert_eq!((held(&budget), budget.room(owner(1))), (200, 0));
}

#[test]
fn reservation_can_be_split_and_shrunk() {
    let budget = ByteBudget::new(400);
    let mut whole = budget.open(owner(1));
    whole.try_grow(150).unwrap();
    let part = whole.split(50);
    assert_eq!((whole.bytes(), part.bytes(), held(&budget)), (100, 50, 150));
    whole.shrink(30);
    whole.shrink(60);
    assert_eq!((whole.bytes(), held(&budget)), (30, 80));
    drop(part);
    let rest = whole.split(90);
    assert_eq!((rest.bytes(), whole.bytes(), held(&budget)), (30, 0, 30));
}

#[test]
fn peers_are_too_slow_only_while_others_wait() {
    let budget = ByteBudget::new(4);
    let mut full = budget.open(owner(1));
    full.try_grow(2).unwrap();
    let mut transfer_rate = TransferRate::default();
    assert!(!transfer_rate.end_interval(&budget), "nothing waits");
    let mut waiting = budget.open(owner(1));
    let mut waiting = Box::pin(waiting.grow(1));
    assert!(noop(waiting.as_mut()).is_pending());
    transfer_rate.add(16 << 10);
    assert!(!transfer_rate.end_interval(&budget));
    transfer_rate.add((16 << 10) - 1);
    assert!(transfer_rate.end_interval(&budget));
}

#[test]
fn waiter_is_woken_when_it_fits() {
    let budget = ByteBudget::new(200);
    let mut first = budget.open(owner(1));
    first.try_grow(100).unwrap();
    let mut second = budget.open(owner(2));
    let count = Arc::new(Count::default());
    let waker = Waker::from(Arc::clone(&count));
    let cx = &mut Context::from_waker(&waker);
    let mut waiting = Box::pin(second.grow(60));
    assert!(waiting.as_mut().poll(cx).is_pending());
    drop(first);
    assert_eq!(count.0.load(Ordering::SeqCst), 1);
    assert_eq!(held(&budget), 60, "granted before it is polled");
    assert_eq!(waiting.as_mut().poll(cx), Poll::Ready(Ok(())));
    drop(waiting);
    assert_eq!((second.bytes(), budget.counts().waiting), (60, 0));
}

#[test]
fn cancelled_waiter_gives_its_grant_to_the_next() {
    let budget = ByteBudget::new(200);
    let mut first = budget.open(owner(1));
    first.try_grow(100).unwrap();
    let (mut second, mut third) = (budget.open(owner(2)), budget.open(owner(3)));
    let mut leaving = Box::pin(second.grow(100));
    let mut staying = pin!(third.grow(100));
    assert!(noop(leaving.as_mut()).is_pending() && noop(staying.as_mut()).is_pending());
    drop(first);
    assert!(noop(staying.as_mut()).is_pending());
    drop(leaving);
    assert_eq!(noop(staying), Poll::Ready(Ok(())));
    assert_eq!(held(&budget), 100);
}

#[test]
fn limits_waiters_in_total_and_per_owner() {
    let budget = ByteBudget::new(2);
    let mut full = budget.open(owner(0));
    full.try_grow(1).unwrap();
    let mut opened: Vec<_> = [1, 2, 3]
        .into_iter()
        .flat_map(|number| (0..MAX_WAITERS).map(move |_| number))
        .map(|number| budget.open(owner(number)))
        .collect();
    let mut waiting: Vec<_> = opened.iter_mut().map(|it| Box::pin(it.grow(1))).collect();
    let is_waiting: Vec<_> = waiting.iter_mut().map(|it| noop(it.as_mut()).is_pending()).collect();
    let counts = is_waiting.chunks(MAX_WAITERS).map(|own| own.iter().filter(|it| **it).count());
    assert_eq!(counts.collect::<Vec<_>>(), [128, 64, 32]);
    drop((waiting, full));
    assert_eq!((held(&budget), budget.counts().waiting), (0, 0));
}

#[test]
fn owner_is_identity_or_network() {
    let budget = ByteBudget::new(1);
    let with = |identity: Option<Identity>, address: &str| {
        let mut extensions = Extensions::new();
        identity.map(|identity| extensions.insert(identity));
        extensions.insert(address.parse::<SocketAddr>().unwrap());
        budget.owner(&extensions)
    };
    let alice = || Some(Identity::new("https://issuer.test", "alice"));
    let bob = || Some(Identity::new("https://issuer.test", "bob"));
    assert_eq!(with(alice(), "192.0.2.1:1"), with(alice(), "192.0.2.2:2"));
    assert_ne!(with(alice(), "192.0.2.1:1"), with(bob(), "192.0.2.1:1"));
    assert_eq!(with(None, "[2001:db8::1]:1"), with(None, "[2001:db8::2]:2"));
    assert_eq!(with(Some(Identity::anonymous()), "192.0.2.1:1"), with(None, "192.0.2.1:2"));
    assert_ne!(with(None, "192.0.2.1:1"), with(None, "192.0.2.2:1"));
    assert_ne!(budget.backend("a"), budget.backend("b"));
}

#[test]
fn limits_drained_bodies() {
    let budget = ByteBudget::new(1);
    let permits: Vec<_> = (0..100).map_while(|_| budget.drain()).collect();
    assert_eq!(permits.len(), MAX_DRAINS);
    drop(permits);
    assert!(budget.drain().is_some());
}

/// A step of a random history. Numbers choose among what is there.
#[derive(Clone, Debug)]
enum Step {
    Take(u64, usize),
    Wait(u64, usize),
    Release(usize),
    Leave(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let bytes = 0..60_usize;
    let step = prop_oneof![
        (0..6_u64, bytes.clone()).prop_map(|(owner, bytes)| Step::Take(owner, bytes)),
        (0..6_u64, bytes).prop_map(|(owner, bytes)| Step::Wait(owner, bytes)),
        any::<usize>().prop_map(Step::Release),
        any::<usize>().prop_map(Step::Leave),
    ];
    proptest::collection::vec(step, 1..200)
}

proptest! {
    /// The sum stays within the budget, everything comes back, and no waiter waits that would fit.
    #[test]
    fn sums_hold_and_no_wake_up_is_lost(steps in steps()) {
        let mut state = State::new(100);
        let (mut holding, mut waiting) = (Vec::new(), Vec::<(u64, u64, usize, Arc<Count>)>::new());
        for step in steps {
            match step {
                Step::Take(number, bytes) => {
                    if state.take(owner(number), bytes) {
                        holding.push((number, bytes));
                    }
                }
                Step::Wait(number, bytes) => {
                    let count = Arc::new(Count::default());
                    match state.wait(owner(number), bytes, &Waker::from(Arc::clone(&count))) {
                        WaitOutcome::Granted => holding.push((number, bytes)),
                        WaitOutcome::Waiting(id) => waiting.push((id, number, bytes, count)),
                        WaitOutcome::Rejected => prop_assert!(bytes > 50 || waiting.len() >= MAX_WAITERS / 6),
                    }
                }
                Step::Release(choice) if !holding.is_empty() => {
                    let (number, bytes) = holding.swap_remove(choice % holding.len());
                    state.give_back(owner(number), bytes).into_iter().for_each(Waker::wake);
                }
                Step::Leave(choice) if !waiting.is_empty() => {
                    let (id, number, bytes, count) = waiting.swap_remove(choice % waiting.len());
                    let was_granted = state.leave(id);
                    prop_assert_eq!(was_granted, count.0.load(Ordering::SeqCst) == 1);
                    if was_granted {
                        state.give_back(owner(number), bytes).into_iter().for_each(Waker::wake);
                    }
                }
                Step::Release(_) | Step::Leave(_) => {}
            }
            state.check();
            // Exactly the woken waiters get what they waited for.
            let mut still = Vec::new();
            for (id, number, bytes, count) in waiting {
                let was_woken = count.0.load(Ordering::SeqCst) == 1;
                match state.poll(id, &Waker::from(Arc::clone(&count))) {
                    WaitOutcome::Granted => {
                        prop_assert!(was_woken);
                        holding.push((number, bytes));
                    }
                    WaitOutcome::Waiting(_) => {
                        prop_assert!(!was_woken);
                        still.push((id, number, bytes, count));
                    }
                    WaitOutcome::Rejected => prop_assert!(false, "a waiter is lost"),
                }
            }
            waiting = still;
        }
        for (number, bytes) in holding {
            state.give_back(owner(number), bytes).into_iter().for_each(Waker::wake);
        }
        // With nothing held, some waiter is granted, and with what that gives back the next, to the last.
        while !waiting.is_empty() {
            let woken = waiting.iter().position(|(.., count)| count.0.load(Ordering::SeqCst) == 1);
            prop_assert!(woken.is_some(), "no waiter is woken");
            let (id, number, bytes, _) = waiting.swap_remove(woken.unwrap());
            prop_assert!(state.leave(id));
            state.give_back(owner(number), bytes).into_iter().for_each(Waker::wake);
            state.check();
        }
        state.check();
        prop_assert_eq!((state.held(), state.waiting()), (0, 0));
    }
}
