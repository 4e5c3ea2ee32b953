// What both watching scripts share.

// One line for one notification.
export function tell({ method, params }) {
  const event = method.replace('notifications/', '');
  const { uri, message } = params ?? {};
  console.log(JSON.stringify({ event, at: Date.now(), uri, message }));
}

// Standard input is how the one who started the script says that it is done.
export function untilInputEnds() {
  process.stdin.resume();
  return new Promise((resolve) => process.stdin.once('end', resolve));
}
