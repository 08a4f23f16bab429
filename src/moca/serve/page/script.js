
"use strict";
// Class and file names are only ever inserted as text, never as markup.

const at = (id) => document.getElementById(id);

function make(tag, given = {}, ...inside) {
  const element = Object.assign(document.createElement(tag), given);
  element.append(...inside.filter((one) => one !== null));
  return element;
}

const percent = (share) => (share === null ? "–" : `${(100 * share).toFixed(1)}\u00a0%`);
const several = (count, one, many) => `${count} ${count === 1 ? one : many}`;
const show = (element, shown = true) => { element.hidden = !shown; };

function complain(element, line) {
  element.textContent = line || "";
  show(element, Boolean(line));
}

// Requests to the service. The API key, if one is needed, stays in this tab.

class Refused extends Error {
  constructor(line, status) {
    super(line);
    this.ofImage = status === 413 || status === 415;
  }
}

let asking = null;

async function ask(path, options = {}) {
  const key = sessionStorage.getItem("key");
  const headers = key ? { Authorization: `Bearer ${key}` } : {};
  let answer;
  try {
    answer = await fetch(path, { ...options, headers });
  } catch {
    throw new Refused("The service does not answer; is it still running?");
  }
  if (answer.status === 401) {
    await askForKey(Boolean(key));
    return ask(path, options);
  }
  const said = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refused(sentence(said.detail || `the service answered ${answer.status}`), answer.status);
  return said;
}

const sentence = (line) => line.charAt(0).toUpperCase() + line.slice(1) + (line.endsWith(".") ? "" : ".");

function askForKey(wrong) {
  asking ??= new Promise((given) => {
    sessionStorage.removeItem("key");
    complain(at("key-problem"), wrong ? "That is not the key." : "");
    at("key").showModal();
    at("key-form").onsubmit = (event) => {
      event.preventDefault();
      sessionStorage.setItem("key", at("key-given").value.trim());
      at("key-given").value = "";
      at("key").close();
      asking = null;
      given();
    };
  });
  return asking;
}

at("key").addEventListener("cancel", (event) => event.preventDefault());

function asForm(files, name) {
  const form = new FormData();
  if (name !== undefined) form.append("class", name);
  for (const file of files) form.append("images", file, file.name || "pasted.png");
  return form;
}

// One unusable image makes the service refuse the whole request: bisect until it is alone, then pass it to `bad`.

async function withoutBad(items, job, bad) {
  try {
    await job(items);
  } catch (error) {
    if (!error.ofImage) throw error;
    if (items.length === 1) {
      bad(items[0], error.message);
      return;
    }
    const half = Math.ceil(items.length / 2);
    await withoutBad(items.slice(0, half), job, bad);
    await withoutBad(items.slice(half), job, bad);
  }
}

function tooMuch(files) {
  if (!model) return null;
  const { bytes, images } = model.limits;
  if (files.length > images) return `At most ${images} images at a time.`;
  const size = files.reduce((sum, file) => sum + file.size, 0);
  return size > bytes ? `At most ${bytes / 2 ** 20} MB at a time; these are ${Math.ceil(size / 2 ** 20)}.` : null;
}

// The model: its classes and versions.

let model = null;
let mayChange = false;

async function refresh() {
  const before = model?.version;
  model = await ask("api/model");
  document.title = `${model.name} – moca`;
  at("name").textContent = model.name;
  at("version").textContent = model.version === null ? "finished run" : `version ${model.version}`;
  show(at("version"));
  mayChange = model.limits.teaching && model.version !== null;
  const [width, height] = model.image_size;
  at("summary").textContent =
    `${several(model.classes.length, "class", "classes")} · ${model.learner} with ${model.perturb} · ${model.encoder} · ` +
    `images of ${width} × ${height}${howGood()}`;
  complain(at("trouble"), [model.trouble, ...model.damaged].filter(Boolean).map(sentence).join(" "));
  if (before !== model.version || !at("classes").children.length) showClasses(await ask("api/classes"));
  at("known").replaceChildren(...model.classes.map((known) => make("option", { value: known.class })));
  at("history").replaceChildren(...model.history.toReversed().map(pastVersion));
  show(at("history-card"), model.history.length > 0);
  show(at("teach"), model.limits.teaching);
  if (before !== undefined && before !== model.version) askAgain();
}

function howGood() {
  const [right, held] = ["correct", "held"].map((fact) => model.classes.reduce((sum, known) => sum + known[fact], 0));
  return held ? ` · ${percent(right / held)} of ${several(held, "held-out image", "held-out images")} correct` : "";
}

function showClasses(classes) {
  at("classes").replaceChildren(...classes.map((known) =>
    make("li", { title: several(known.remembered, "remembered image", "remembered images") +
        (known.held ? `; of the held-out images ${known.correct} of ${known.held} correct` : "") },
      known.png && make("img", { className: "tiny", src: known.png, alt: "" }),
      make("span", { className: "name", textContent: known.class }),
      make("span", { className: "faint", textContent: known.remembered }),
      mayChange && classes.length > 1 ? cross(`Forget ${known.class}`, () => forget(known.class)) : null)));
}

function cross(title, onclick) {
  const button = make("button", { type: "button", className: "cross", title, textContent: "×", onclick });
  button.setAttribute("aria-label", title);
  return button;
}

// Changing the version in use, after confirmation.

function sure(question, why, verb) {
  at("sure-title").textContent = question;
  at("sure-why").textContent = why;
  at("sure-yes").textContent = verb;
  at("sure").returnValue = "";
  at("sure").showModal();
  return new Promise((answered) => {
    at("sure").onclose = () => answered(at("sure").returnValue === "yes");
  });
}

async function change(path, field, value) {
  const body = new FormData();
  body.append(field, value);
  try {
    await ask(path, { method: "POST", body });
    complain(at("change-problem"), "");
    await refresh();
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    complain(at("change-problem"), error.message);
  }
}

async function forget(name) {
  const why = "A new version will have it in neither memory, head nor held-out images. Earlier versions keep it: with " +
    "“Use this version” you can go back.";
  if (await sure(`Forget “${name}”?`, why, "Forget it")) await change("api/forget", "class", name);
}

async function useVersion(number) {
  const why = `It will then answer all requests. Version ${model.version} stays in the list.`;
  if (await sure(`Use version ${number}?`, why, "Use it")) await change("api/use", "version", number);
}

function pastVersion(past) {
  const facts = [
    past.images === null ? null : several(past.images, "image", "images"),
    past.old_after === null ? null : `old\u00a0${percent(past.old_before)}\u00a0→\u00a0${percent(past.old_after)}`,
    past.new_after === null ? null : `new\u00a0${percent(past.new_after)}`,
  ].filter((fact) => fact !== null);
  const when = new Date(past.when).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
  return make("li", { className: past.in_use ? "used" : "" },
    make("p", { className: "row" },
      make("b", { textContent: `${past.version}${past.in_use ? " · in use" : ""}` }),
      make("span", { className: "faint", textContent: when })),
    past.what ? make("p", { textContent: past.what }) : null,
    facts.length ? make("p", { className: "faint", textContent: facts.join(" · ") }) : null,
    mayChange && !past.in_use ? make("button", { type: "button", className: "plain", textContent: "Use this version",
      onclick: () => useVersion(past.version) }) : null);
}

// Images are dropped, pasted or chosen.

function takesImages(zone, input, take) {
  input.addEventListener("change", () => {
    const files = [...input.files];
    input.value = "";
    if (files.length) take(files);
  });
  zone.addEventListener("dragover", (event) => { event.preventDefault(); zone.classList.add("over"); });
  zone.addEventListener("dragleave", () => zone.classList.remove("over"));
  zone.addEventListener("drop", (event) => {
    event.preventDefault();
    event.stopPropagation();
    zone.classList.remove("over");
    if (event.dataTransfer.files.length) take([...event.dataTransfer.files]);
  });
}

document.addEventListener("dragover", (event) => event.preventDefault());
document.addEventListener("drop", (event) => event.preventDefault());
document.addEventListener("paste", (event) => {
  const files = [...(event.clipboardData?.files ?? [])];
  if (!files.length) return;
  event.preventDefault();
  if (at("teach").contains(document.activeElement)) choose(files);
  else lookAt(files);
});

function picture(file, unseen) {
  const image = make("img", { className: "picture", alt: "" });
  image.onload = () => image.classList.toggle("tiny", image.naturalWidth < 100);
  image.onerror = () => {
    URL.revokeObjectURL(image.src);
    image.replaceWith(make("div", { className: "picture" }));
    unseen?.();
  };
  image.src = URL.createObjectURL(file);
  return image;
}

function dropped(element) {
  for (const image of element.querySelectorAll("img.picture")) URL.revokeObjectURL(image.src);
  element.remove();
}

// Predictions.

const MOST_SHOWN = 24;
const shown = [];

async function lookAt(files) {
  complain(at("look-problem"), tooMuch(files));
  if (!at("look-problem").hidden) return;
  if (files.length > MOST_SHOWN) complain(at("look-problem"), `The first ${MOST_SHOWN} of ${files.length} are shown.`);
  const cards = files.slice(0, MOST_SHOWN).map(resultCard);
  at("results").prepend(...cards.map((card) => card.element));
  shown.unshift(...cards);
  for (const old of shown.splice(MOST_SHOWN)) dropped(old.element);
  await tell(cards);
}

function resultCard(file) {
  const told = make("div", { className: "told" });
  const near = make("div", { className: "near", hidden: true });
  const element = make("article", { className: "result card waiting" },
    make("figure", {}, picture(file), make("figcaption", { textContent: file.name, title: file.name })), told, near);
  return { file, element, told, near };
}

async function tell(cards) {
  if (!cards.length) return;
  try {
    await withoutBad(cards, tellAll, tellBad);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    complain(at("look-problem"), error.message);
    for (const card of cards.filter((one) => one.element.classList.contains("waiting"))) {
      if (shown.includes(card)) shown.splice(shown.indexOf(card), 1);
      dropped(card.element);
    }
  }
}

async function tellAll(cards) {
  const files = cards.map((card) => card.file);
  const predicted = await ask("api/predict?top=5", { method: "POST", body: asForm(files) });
  const found = await ask("api/nearest?count=6", { method: "POST", body: asForm(files) });
  cards.forEach((card, place) => {
    const classes = predicted.predictions[place].classes;
    tellClasses(card, classes);
    tellNearest(card, found.nearest[place].remembered, classes[0].class);
    card.element.classList.remove("waiting");
  });
}

function tellBad(card, line) {
  card.bad = true;
  card.element.classList.replace("waiting", "bad");
  card.told.replaceChildren(make("p", { className: "problem", textContent: line }));
}

const askAgain = () => tell(shown.filter((card) => !card.bad));

function tellClasses(card, classes) {
  const bars = make("div", { className: "bars" });
  classes.forEach(({ class: name, share }, place) => {
    const first = place === 0 ? " first" : "";
    const fill = make("div", { className: `fill${first}` });
    fill.style.width = `${100 * share}%`;
    bars.append(
      make("span", { className: `name${first}`, textContent: name, title: name }),
      make("div", { className: "track" }, fill),
      make("span", { className: `value${first}`, textContent: percent(share) }));
  });
  const correct = model?.limits.teaching ? make("button", { type: "button", className: "plain", textContent: "Not right? Teach it",
    onclick: () => teachIt(card.file) }) : null;
  card.told.replaceChildren(...[make("p", { className: "verdict", textContent: classes[0].class }), bars, correct].filter(Boolean));
}

function tellNearest(card, remembered, told) {
  show(card.near, remembered.length > 0);
  card.near.replaceChildren(
    make("h3", { textContent: "Nearest in memory, by the angle of their features" }),
    make("ul", { className: "neighbours" }, ...remembered.map((one) =>
      make("li", {},
        make("img", { className: "picture tiny", src: one.png, alt: "" }),
        make("span", { className: `name${one.class === told ? " same" : ""}`, textContent: one.class, title: one.class }),
        make("span", { className: "faint", textContent: `${one.angle.toFixed(1)}°` })))));
}

// Teaching.

let chosen = []; // { file, bad }: `bad` says why the file cannot be used, or is null

const MOST_NAMED = 3;
const usable = () => chosen.filter((one) => !one.bad).map((one) => one.file);
const isSame = (one, other) => ["name", "size", "lastModified"].every((fact) => one[fact] === other[fact]);

function tellLeftOut(lines) {
  const more = lines.length > MOST_NAMED ? ` (and ${lines.length - MOST_NAMED} more)` : "";
  const named = lines.slice(0, MOST_NAMED).map((line) => line.replace(/\.$/, "")).join("; ");
  complain(at("left-out"), lines.length ? `${several(lines.length, "image", "images")} left out: ${named}${more}.` : "");
}

function choose(files) {
  show(at("outcome"), false);
  const fresh = [];
  for (const file of files) {
    if (![...chosen, ...fresh].some((one) => isSame(one.file, file))) fresh.push({ file, bad: null });
  }
  chosen.push(...fresh);
  at("chosen").append(...fresh.map(thumbnail));
  countChosen();
}

function teachIt(file) {
  choose([file]);
  at("teach").scrollIntoView({ block: "nearest" });
  at("class-name").focus({ preventScroll: true });
}

function thumbnail(one) {
  const element = make("div", { className: "thumb", title: one.file.name }, picture(one.file, () => doubt(one)),
    cross(`Leave out ${one.file.name}`, () => {
      chosen = chosen.filter((other) => other !== one);
      dropped(element);
      countChosen();
    }));
  one.element = element;
  return element;
}

// The service may be able to read a file that the browser cannot show, so ask it, with all such files in one request.

let doubted = [];

function doubt(one) {
  doubted.push(one);
  if (doubted.length === 1) setTimeout(checkDoubted, 50);
}

async function checkDoubted() {
  const asked = doubted;
  doubted = [];
  try {
    await withoutBad(asked, (some) => ask("api/predict?top=1", { method: "POST", body: asForm(some.map((one) => one.file)) }),
      (one, line) => {
        one.bad = line;
        one.element.classList.add("bad");
        one.element.title = line;
      });
  } catch (error) {
    if (!(error instanceof Refused)) throw error; // it will be reported when the lesson starts
  }
  countChosen();
}

function clearChosen() {
  chosen = [];
  for (const old of [...at("chosen").children]) dropped(old);
  countChosen();
}

function countChosen() {
  const files = usable();
  complain(at("teach-problem"), tooMuch(files));
  tellLeftOut(chosen.filter((one) => one.bad).map((one) => one.bad));
  show(at("clear"), chosen.length > 0);
  at("begin").textContent = files.length ? `Teach from ${several(files.length, "image", "images")}` : "Teach";
  canBegin();
}

function canBegin() {
  const files = usable();
  at("begin").disabled = !files.length || !at("class-name").value.trim() || Boolean(tooMuch(files));
}

at("clear").addEventListener("click", clearChosen);
at("class-name").addEventListener("input", canBegin);

at("lesson").addEventListener("submit", async (event) => {
  event.preventDefault();
  if (at("begin").disabled) return;
  at("begin").disabled = true;
  complain(at("teach-problem"), "");
  show(at("outcome"), false);
  const bad = chosen.filter((one) => one.bad).map((one) => one.bad);
  try {
    const body = asForm(usable(), at("class-name").value);
    const lesson = await ask("api/teach", { method: "POST", body });
    clearChosen();
    at("class-name").value = "";
    await follow(lesson, bad);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    complain(at("teach-problem"), error.message);
    canBegin();
  }
});

at("stop").addEventListener("click", async () => {
  at("stop").disabled = true;
  await ask("api/teach", { method: "DELETE" }).catch(() => {});
});

let following = false;

async function follow(lesson, bad = []) {
  if (following) return;
  following = true;
  show(at("lesson"), false);
  show(at("progress"));
  tellLeftOut([...bad, ...lesson.left_out]);
  at("stop").disabled = false;
  try {
    while (lesson.state === "running") {
      showProgress(lesson);
      await new Promise((later) => setTimeout(later, 400));
      lesson = await ask("api/teach");
    }
    showOutcome(lesson);
    await refresh();
  } finally {
    following = false;
    show(at("progress"), false);
    show(at("lesson"));
    canBegin();
  }
}

function showProgress(lesson) {
  at("lesson-title").textContent = `Learning ${lesson.class} from ${several(lesson.images, "image", "images")}`;
  at("lesson-told").textContent = lesson.steps ? `step ${lesson.done} of ${lesson.steps}` : "starting …";
  if (lesson.steps) Object.assign(at("bar"), { max: lesson.steps, value: lesson.done });
  else at("bar").removeAttribute("value");
}

function showOutcome(lesson) {
  const kind = { used: "good", refused: "bad", failed: "bad" }[lesson.state] ?? "";
  const lines = [make("p", { className: kind, textContent: sentence(lesson.told) })];
  const apart = lesson.old_apart === lesson.old_after ? null : lesson.old_apart;
  const rows = [["classes known before", lesson.old_before, lesson.old_after],
    ["the same, among themselves", lesson.old_before, apart], [lesson.class, null, lesson.new_after]]
    .filter(([, , after]) => after !== null)
    .map(([name, before, after]) => make("tr", {}, make("th", { textContent: name, scope: "row" }),
      make("td", { textContent: before === null ? "" : percent(before) }), make("td", { textContent: percent(after) })));
  if (rows.length) {
    lines.push(make("table", {}, make("tr", {}, make("th", { textContent: "Accuracy on held-out images" }),
      make("th", { textContent: "before" }), make("th", { textContent: "after" })), ...rows));
  }
  if (lesson.basis) lines.push(make("p", { className: "faint", textContent: lesson.basis }));
  if (lesson.known) lines.push(make("p", { className: "faint", textContent: `${several(lesson.known, "image was", "images were")} skipped, as already learnt.` }));
  lines.push(...lesson.warnings.map((line) => make("p", { className: "problem", textContent: line })));
  at("outcome").replaceChildren(...lines);
  show(at("outcome"));
}

takesImages(at("look-zone"), at("look-files"), lookAt);
takesImages(at("teach-zone"), at("teach-files"), choose);

// Poll for changes made elsewhere: other lessons, or another version in use.

const EVERY = 4000;

async function keepUp() {
  if (!document.hidden && !following && !asking) {
    await refresh();
    if (model.limits.teaching) {
      const lesson = await ask("api/teach");
      if (lesson.state === "running") await follow(lesson);
    }
  }
}

async function keepOnKeepingUp() {
  try {
    await keepUp();
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    complain(at("trouble"), error.message);
  } finally {
    setTimeout(keepOnKeepingUp, EVERY);
  }
}

keepOnKeepingUp();
