// A person's browser: Chromium, driven by one JSON object a line, each answered by one line. Without `script` pages run
// no scripts; `width` is that of the window, `dark` the colour scheme that the person prefers.
//
//   {"open": URL}                  goes there
//   {"press": KEY}                 on the keyboard
//   {"fill": NAME, "with": TEXT}   a field of a form
//   {"click": NAME}                on a button
//   {"follow": NAME}               follows the link whose name has this in it
//   {"until": START}               waits until the address begins so
//   {"audit": true}                tells what axe finds amiss in the page
//
// Each answer says what the person has before them, and what the browser complained about since it was last asked.
//
// usage: browser.mjs CHROMIUM {"script": true, "width": 1280, "dark": false} LIBRARIES FONTS

import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { chromium } from 'playwright-core';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const [executablePath, options, libraries, fonts] = process.argv.slice(2);
const { script, width, dark } = JSON.parse(options);

// Node.js itself runs with the machine's own libraries.
const env = { ...process.env, LD_LIBRARY_PATH: libraries, FONTCONFIG_FILE: fonts };
const browser = await chromium.launch({ executablePath, env });
const context = await browser.newContext({
  javaScriptEnabled: script,
  colorScheme: dark ? 'dark' : 'light',
  viewport: { width, height: 720 },
});
context.setDefaultTimeout(30_000);
const page = await context.newPage();

let complaints = [];
page.on('console', (message) => complaints.push({ at: page.url(), text: message.text() }));
page.on('pageerror', (error) => complaints.push({ at: page.url(), text: String(error) }));

// What of the page a person sees, or a screen reader reads out.
const look = () => {
  const focused = document.activeElement === document.body ? null : document.activeElement;
  const style = focused && getComputedStyle(focused);
  const root = document.documentElement;
  return {
    title: document.title,
    lang: root.lang,
    text: document.body.innerText,
    headings: [...document.querySelectorAll('h1')].map((it) => it.innerText),
    overflows: root.scrollWidth > root.clientWidth,
    focus: focused && {
      name: focused.getAttribute('aria-label') ?? focused.innerText,
      ring: style.outlineStyle === 'none' ? 0 : parseFloat(style.outlineWidth),
    },
  };
};

const audit = async () => {
  const tags = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];
  await page.evaluate(axe);
  const { violations } = await page.evaluate((values) => axe.run(document, { runOnly: { type: 'tag', values } }), tags);
  return violations.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.map((node) => node.html).join(' ')}`);
};

// A page that is left at that moment is not there to be looked at; the next one is.
const sight = async () => {
  for (;;) {
    try {
      await page.waitForLoadState();
      const [, ...frames] = page.frames();
      const framed = await Promise.all(frames.map((frame) => frame.evaluate(() => document.body.innerText)));
      return { url: page.url(), ...(await page.evaluate(look)), framed };
    } catch (error) {
      if (!/navigation|context was destroyed/.test(error)) throw error;
    }
  }
};

const act = async (what) => {
  if (what.open) await page.goto(what.open);
  if (what.fill) await page.locator(`[name="${what.fill}"]`).fill(what.with);
  if (what.press) await page.keyboard.press(what.press);
  if (what.click) await page.getByRole('button', { name: what.click, exact: true }).click();
  if (what.follow) await page.getByRole('link', { name: what.follow }).click();
  if (what.until) await page.waitForURL((url) => url.href.startsWith(what.until));
  await page.waitForLoadState();
  return what.audit ? { audit: await audit() } : {};
};

for await (const line of createInterface({ input: process.stdin })) {
  let answer;
  try {
    const extra = await act(JSON.parse(line));
    answer = { ...extra, ...(await sight()), complaints };
  } catch (error) {
    answer = { error: `${page.url()}: ${error}` };
  }
  complaints = [];
  console.log(JSON.stringify(answer));
}
await browser.close();
