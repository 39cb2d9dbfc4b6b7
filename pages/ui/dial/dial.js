// Epsilon by hand: a slider and a box, what the choice promises, what it costs, and two pictures; nothing is fetched.
// Python works the numbers out. At a place of the slider promises are exact; errors are exact where they were worked
// out, on a straight line (of logarithms) in between, and exact again once the server has answered.

const SVG = 'http://www.w3.org/2000/svg';
const SETTLES_AFTER = 200; // milliseconds without a move until the server is told
const ROUGH = 0.05; // of the rows: above it, noise is said in red

export default function (component) {
  const { data, parentElement, setStateValue } = component;
  let dial = parentElement.hermitageDial;
  if (!dial || !dial.root.isConnected) {
    dial = build(parentElement);
    parentElement.hermitageDial = dial;
  }
  dial.tell = setStateValue;
  dial.take(data);
}

function build(parent) {
  const root = make('div', 'dial');
  parent.appendChild(root);
  const part = layout(root);
  const state = { data: null, epsilon: 1, rows: null, column: 0, moves: 0, timer: null, outstanding: null };
  const dial = { root, tell: null };

  dial.take = (data) => {
    state.data = data;
    // What was set here last is newer than an answer to what was set before it.
    if (data.moved === state.outstanding) state.outstanding = null;
    if (state.outstanding === null && state.timer === null) {
      if (data.epsilon !== state.epsilon) say(part, '');
      state.epsilon = data.epsilon;
      if (document.activeElement !== part.box) part.box.value = plain(data.epsilon);
      state.column = data.column;
      if (document.activeElement !== part.rows) {
        state.rows = known(data);
        part.rows.value = state.rows === null ? '' : Math.round(state.rows).toLocaleString('en');
      }
    }
    offer(part.column, data);
    draw();
  };

  const settle = (more = {}) => {
    clearTimeout(state.timer);
    const send = () => {
      state.timer = null;
      state.moves += 1;
      state.outstanding = `${Date.now()}-${state.moves}`;
      const moved = { move: state.outstanding, epsilon: state.epsilon, column: state.column, look: false };
      dial.tell('moved', { ...moved, rows: state.data.rows.public === null ? state.rows : null, ...more });
    };
    state.timer = setTimeout(send, SETTLES_AFTER);
  };

  const move = (epsilon) => {
    say(part, '');
    if (epsilon === state.epsilon) return;
    state.epsilon = epsilon;
    part.box.value = plain(epsilon);
    draw();
    settle();
  };

  const places = () => state.data.promises.map((promise) => promise[0]);

  part.slider.addEventListener('input', () => move(nearest(places(), epsilonAt(part.slider.valueAsNumber, places()))));
  part.slider.addEventListener('keydown', (event) => {
    const steps = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 10, PageDown: -10 };
    const all = places();
    if (event.key === 'Home' || event.key === 'End') {
      event.preventDefault();
      move(all[event.key === 'Home' ? 0 : all.length - 1]);
    } else if (event.key in steps) {
      event.preventDefault();
      const at = all.indexOf(nearest(all, state.epsilon)) + steps[event.key];
      move(all[Math.min(Math.max(at, 0), all.length - 1)]);
    }
  });

  const typed = () => {
    const { smallest, largest } = state.data;
    const value = Number(part.box.value.trim().replace(',', '.'));
    const stays = `The budget stays at ${plain(state.epsilon)}.`;
    if (!part.box.value.trim() || !Number.isFinite(value)) {
      say(part, `Type a number from ${plain(smallest)} to ${plain(largest)}, for example 0.5. ${stays}`);
    } else if (value < smallest) {
      say(part, `${plain(value)} is too small: epsilon goes from ${plain(smallest)} to ${plain(largest)}. ${stays}`);
    } else if (value > largest) {
      say(
        part,
        `${plain(value)} is too large: epsilon goes from ${plain(smallest)} to ${plain(largest)}, and above 20 hardly` +
          ` anything is promised. ${stays}`
      );
    } else {
      move(value);
    }
  };
  part.box.addEventListener('input', typed);
  part.box.addEventListener('change', () => {
    typed();
    part.box.value = plain(state.epsilon);
  });

  part.rows.addEventListener('input', () => {
    const value = Number(part.rows.value.replace(/[,.\s]/g, ''));
    state.rows = part.rows.value.trim() && Number.isInteger(value) && value > 0 ? value : null;
    draw();
    settle();
  });
  part.column.addEventListener('change', () => {
    state.column = part.column.selectedIndex;
    settle();
  });
  part.look.addEventListener('click', () => settle({ look: true }));

  const draw = () => show(part, state);
  new ResizeObserver(() => state.data && pictures(part, state)).observe(root);
  return dial;
}

// Numbers --------------------------------------------------------------------------------------------------------------

function promiseAt(data, epsilon) {
  if (data.here[0] === epsilon) return data.here;
  // Between places: the next one up, whose promise is no stronger, until the server has worked this one out.
  const { promises } = data;
  return promises.find((promise) => promise[0] >= epsilon) ?? (data.here[0] >= epsilon ? data.here : null);
}

function between(at, values, epsilon) {
  const exact = at.indexOf(epsilon);
  if (exact >= 0) return values[exact];
  let right = at.findIndex((place) => place > epsilon);
  if (right === -1) right = at.length - 1;
  if (right === 0) right = 1;
  const [low, high] = [values[right - 1], values[right]];
  if (low === null || high === null) return low ?? high;
  const share = (Math.log(epsilon) - Math.log(at[right - 1])) / (Math.log(at[right]) - Math.log(at[right - 1]));
  if (low <= 0 || high <= 0) return low + share * (high - low);
  return Math.exp(Math.log(low) + share * (Math.log(high) - Math.log(low)));
}

function known({ rows }) {
  return rows.public ?? rows.looked ?? rows.typed;
}

function nearest(places, epsilon) {
  return places.reduce((best, place) =>
    Math.abs(Math.log(place / epsilon)) < Math.abs(Math.log(best / epsilon)) ? place : best
  );
}

function epsilonAt(position, places) {
  const [first, last] = [places[0], places[places.length - 1]];
  return first * (last / first) ** (position / 1000);
}

function positionOf(epsilon, places) {
  const [first, last] = [places[0], places[places.length - 1]];
  return Math.min(1, Math.max(0, Math.log(epsilon / first) / Math.log(last / first)));
}

// Words ----------------------------------------------------------------------------------------------------------------

function plain(value) {
  return String(Number(value.toPrecision(6)));
}

function count(value) {
  return value >= 10 ? Math.round(value).toLocaleString('en') : plain(Number(value.toPrecision(2)));
}

function points(share) {
  const value = 100 * share;
  if (value >= 100) return null;
  return value >= 10 ? String(Math.round(value)) : plain(Number(value.toFixed(value >= 1 ? 1 : 2)));
}

function say(part, sentence) {
  part.said.textContent = sentence;
  part.said.hidden = !sentence;
  part.box.setAttribute('aria-invalid', sentence ? 'true' : 'false');
}

function word(data, epsilon) {
  if (epsilon <= data.scale.strong) return 'strong';
  return epsilon <= data.scale.weak ? 'usual' : 'weak';
}

function costOf(line, data, state) {
  const value = between(data.at, line.values, state.epsilon);
  if (!line.rows) return { value, words: plain(Number(value.toPrecision(3))), share: null };
  if (state.rows === null) return { value, words: `within ±${count(value)} ${data.rows.counted}`, share: null };
  const share = value / (state.rows * data.rows.measured);
  const said = points(share);
  return { value, share, words: said === null ? 'no usable signal' : `within ${said} points` };
}

// What is shown --------------------------------------------------------------------------------------------------------

function show(part, state) {
  const { data, epsilon } = state;
  const all = data.promises.map((promise) => promise[0]);
  part.slider.value = 1000 * positionOf(epsilon, all);
  part.slider.setAttribute('aria-valuetext', `epsilon ${plain(epsilon)}, ${word(data, epsilon)}`);
  for (const [name, element] of Object.entries(part.zones)) {
    element.classList.toggle('dial-here', name === word(data, epsilon));
  }
  const promise = promiseAt(data, epsilon);
  const [, odds, even, any, noise] = promise ?? [0, 'more than a million times', 'almost certain', 100, 100];
  const most = odds.startsWith('more') ? 'by ' : 'by at most ';
  write(part.odds, 'Odds can change ', most + odds);
  write(part.even, '50:50 becomes ', even.includes(':') ? `at most ${even}` : even);
  write(part.best, 'Best possible attack: ', any >= 100 ? 'no meaningful limit' : `advantage over guessing at most ${any} %`);
  part.noise.textContent = `With the noise of this release: at most ${noise} %.`;
  part.belief.textContent =
    `Odds: of anything someone believes about ${data.belief}${data.but ? ', ' + data.but : ''}.` +
    ` Attack: how much more often than a coin toss it ${data.attack}.`;
  const again = between(data.at, data.again, epsilon);
  const about = data.at.includes(epsilon) ? '' : 'about ';
  write(part.again, 'A second release like this would bring these people to ', `epsilon ${about}${plain(Number(again.toPrecision(3)))}`,
    ' in total.');

  part.costs.replaceChildren();
  const rough = [];
  for (const line of data.lines) {
    const cost = costOf(line, data, state);
    const row = make('p', 'dial-line');
    const name = line.rows && state.rows === null ? `a count in ${line.of}` : line.name;
    write(row, `${name}: `, cost.words, cost.share !== null ? ` (±${count(cost.value)} ${data.rows.counted})` : '');
    row.firstChild.textContent = row.firstChild.textContent.replace(/^./, (letter) => letter.toUpperCase());
    row.setAttribute('data-headline', line.of);
    part.costs.appendChild(row);
    if (cost.share !== null && cost.share > ROUGH) rough.push(`±${count(cost.value)} ${data.rows.counted} in a count of ${line.of}`);
  }
  if (data.none) part.costs.appendChild(make('p', 'dial-small', data.none));
  part.rough.hidden = rough.length === 0;
  part.rough.textContent = rough.length
    ? `Noise is more than 5 % of the ${count(state.rows * data.rows.measured)} ${data.rows.counted} that are measured: ${rough.join(', ')}.` +
      ' Small groups will be mostly noise.'
    : '';
  asked(part, state);
  pictures(part, state);
}

function asked(part, state) {
  const { rows, lines } = state.data;
  const needed = lines.some((line) => line.rows);
  part.ask.hidden = !needed;
  part.rows.disabled = rows.public !== null;
  // A look shows how many rows there are; where people are kept whole, counts are of people.
  const looks = rows.counted === 'rows';
  part.look.hidden = rows.public !== null || rows.looked !== null || !looks;
  part.asking.textContent = `About how many ${rows.counted}? `;
  const held = rows.measured < 1 ? ` Of these, ${Math.round(100 * rows.measured)} % are measured; the others are held out.` : '';
  part.source.textContent =
    rows.public !== null
      ? `The number you declared as public.${held}`
      : rows.looked !== null && state.rows === rows.looked
        ? `○ Owner only: read from the private rows, and the look is recorded. Do not publish it.${held}`
        : state.rows === null
          ? `Type it to see errors as shares of the ${rows.counted}; it stays on this screen.` +
            (looks ? ' A look at the private rows is recorded, and the certificate of anything you set afterwards says so.' : '')
          : `As you typed it.${held}`;
}

function offer(select, data) {
  const names = data.columns;
  const now = [...select.options].map((option) => option.textContent);
  if (names.length !== now.length || names.some((name, place) => name !== now[place])) {
    select.replaceChildren(...names.map((name) => make('option', '', name)));
  }
  select.selectedIndex = data.column;
}

// Pictures -------------------------------------------------------------------------------------------------------------

function pictures(part, state) {
  const { data } = state;
  part.curve.closest('figure').hidden = data.lines.length === 0;
  if (data.lines.length) drawCurve(part, state);
  part.shape.closest('figure').hidden = data.shape === null;
  if (data.shape !== null) drawShape(part, state);
  part.accuracy.closest('figure').hidden = !data.accuracy;
  if (data.accuracy) drawAccuracy(part, state);
}

function frame(svg, height) {
  const width = Math.max(260, Math.round(svg.parentElement.clientWidth));
  svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
  svg.setAttribute('width', width);
  svg.setAttribute('height', height);
  svg.replaceChildren();
  return { width, height, left: 52, right: width - 12, top: 12, bottom: height - 34 };
}

function acrossEpsilon(svg, box, data) {
  const all = data.promises.map((promise) => promise[0]);
  const x = (epsilon) => box.left + positionOf(epsilon, all) * (box.right - box.left);
  for (const tick of [0.05, 0.1, 0.3, 1, 3, 10]) {
    line(svg, x(tick), box.top, x(tick), box.bottom, 'dial-grid');
    text(svg, x(tick), box.bottom + 15, plain(tick), 'middle');
  }
  text(svg, (box.left + box.right) / 2, box.height - 3, 'epsilon', 'middle');
  return x;
}

function drawCurve(part, state) {
  const { data, epsilon } = state;
  const box = frame(part.curve, 230);
  const inShares = data.lines.every((one) => one.rows) && state.rows !== null;
  const unit = (value) => (inShares ? (100 * value) / (state.rows * data.rows.measured) : value);
  const all = data.lines.flatMap((one) => one.values.map(unit)).filter((value) => value > 0);
  const [low, high] = [Math.min(...all) / 1.3, Math.max(...all) * 1.3];
  const y = (value) => box.bottom - (Math.log(value / low) / Math.log(high / low)) * (box.bottom - box.top);
  const x = acrossEpsilon(part.curve, box, data);
  for (const tick of decades(low, high)) {
    line(part.curve, box.left, y(tick), box.right, y(tick), 'dial-grid');
    text(part.curve, box.left - 6, y(tick) + 4, tick >= 1000 ? tick.toLocaleString('en') : plain(tick), 'end');
  }
  if (inShares && 100 * ROUGH > low && 100 * ROUGH < high) {
    line(part.curve, box.left, y(5), box.right, y(5), 'dial-rough-line');
    text(part.curve, box.right, y(5) - 5, `5 % of the ${data.rows.counted}`, 'end', 'dial-rough-text');
  }
  data.lines.forEach((one, place) => {
    const across = data.at.map((at, index) => [x(at), one.values[index]]).filter(([, value]) => value > 0);
    polyline(part.curve, across.map(([at, value]) => [at, y(unit(value))]), `dial-curve dial-curve-${place % 2}`);
  });
  line(part.curve, x(epsilon), box.top, x(epsilon), box.bottom, 'dial-choice');
  const values = data.lines.map((one) => between(data.at, one.values, epsilon));
  const least = values.indexOf(Math.min(...values.filter((value) => value > 0)));
  data.lines.forEach((one, place) => {
    const value = values[place];
    if (!(value > 0)) return;
    circle(part.curve, x(epsilon), y(unit(value)), `dial-dot dial-dot-${place % 2}`);
    const atRight = x(epsilon) > (box.left + box.right) / 2;
    const said = `${one.of}: ${costOf(one, data, state).words.replace('within ', '')}`;
    // The lower curve has its words below, the other above: where they nearly meet the words stay apart, in their order.
    const up = place === least && data.lines.length > 1 ? 18 : -9;
    text(part.curve, x(epsilon) + (atRight ? -9 : 9), y(unit(value)) + up, said, atRight ? 'end' : 'start', 'dial-strong');
  });
  const what = inShares ? 'in percentage points' : data.lines.every((one) => one.rows) ? `in ${data.rows.counted}` : '';
  part.curveTitle.textContent = `Expected error by epsilon${what ? ', ' + what : ''}`;
  part.curve.setAttribute('aria-label', `${part.curveTitle.textContent}. The same numbers are in the table below it.`);
  table(part.curveTable, ['epsilon', ...data.lines.map((one) => one.of)], data.at.map((at, index) => [
    plain(at), ...data.lines.map((one) => plain(Number(unit(one.values[index]).toPrecision(3)))),
  ]));
}

function drawShape(part, state) {
  const { data, epsilon } = state;
  const { labels, shares, draws, widths } = data.shape;
  const noise = between(data.at, data.shape.noise, epsilon);
  const counted = between(data.at, data.shape.counts, epsilon);
  part.shapeTitle.textContent = `What the noise does to one column (invented ${data.rows.counted}):`;
  part.shapeEmpty.textContent = `Type about how many ${data.rows.counted} there are above, and the picture is drawn for that number.`;
  part.shapeEmpty.hidden = state.rows !== null;
  part.shape.style.display = state.rows === null ? 'none' : '';
  part.shapeTable.closest('details').hidden = state.rows === null;
  if (state.rows === null || noise === null) return;
  const n = state.rows * data.rows.measured;
  const exact = shares.map((share) => share * n);
  const onBar = (place) => noise * Math.sqrt(Math.max(1, widths[place] * counted));
  const noisy = exact.map((value, place) => Math.max(0, value + draws[place] * onBar(place)));
  const box = frame(part.shape, 230);
  const high = 1.35 * Math.max(...exact);
  const y = (value) => box.bottom - (Math.min(value, high) / high) * (box.bottom - box.top);
  const slot = (box.right - box.left) / labels.length;
  for (const share of [0, 0.5, 1]) {
    const value = niceBelow(high) * share;
    line(part.shape, box.left, y(value), box.right, y(value), 'dial-grid');
    text(part.shape, box.left - 6, y(value) + 4, count(value), 'end');
  }
  noisy.forEach((value, place) => {
    const bar = draw(part.shape, 'rect', 'dial-bar');
    set(bar, { x: box.left + (place + 0.14) * slot, y: y(value), width: 0.72 * slot, height: box.bottom - y(value) });
    line(part.shape, box.left + place * slot, y(exact[place]), box.left + (place + 1) * slot, y(exact[place]), 'dial-exact');
  });
  const most = Math.max(3, Math.floor((box.right - box.left) / 90));
  const stride = Math.max(1, Math.ceil(labels.length / most));
  labels.forEach((label, place) => {
    if (place % stride) return;
    const start = label.split(' to ')[0];
    const short = start.length > 12 ? `${start.slice(0, 11)}…` : start;
    text(part.shape, box.left + (place + 0.5) * slot, box.bottom + 15, short, 'middle');
  });
  part.shape.setAttribute('aria-label', `${part.shapeTitle.textContent} The same numbers are in the table below it.`);
  table(part.shapeTable, ['value', `invented ${data.rows.counted}`, 'with noise'],
    labels.map((label, place) => [label, count(exact[place]), count(noisy[place])]));
}

function drawAccuracy(part, state) {
  const { data, epsilon } = state;
  const { points: found, measure, real, generator } = data.accuracy;
  const box = frame(part.accuracy, 190);
  const values = found.map((point) => point[1]).concat(real ?? []);
  const spread = Math.max(0.02, Math.max(...values) - Math.min(...values));
  const [low, high] = [Math.min(...values) - 0.25 * spread, Math.max(...values) + 0.25 * spread];
  const y = (value) => box.bottom - ((value - low) / (high - low)) * (box.bottom - box.top);
  const x = acrossEpsilon(part.accuracy, box, data);
  for (const value of [low + 0.1 * (high - low), (low + high) / 2, high - 0.1 * (high - low)]) {
    line(part.accuracy, box.left, y(value), box.right, y(value), 'dial-grid');
    text(part.accuracy, box.left - 6, y(value) + 4, value.toFixed(2), 'end');
  }
  if (real !== null) {
    line(part.accuracy, box.left, y(real), box.right, y(real), 'dial-real');
    text(part.accuracy, box.right, y(real) - 5, 'trained on the public rows themselves', 'end');
  }
  polyline(part.accuracy, found.map(([at, value]) => [x(at), y(value)]), 'dial-curve dial-curve-0');
  found.forEach(([at, value]) => circle(part.accuracy, x(at), y(value), 'dial-dot dial-dot-0'));
  line(part.accuracy, x(epsilon), box.top, x(epsilon), box.bottom, 'dial-choice');
  part.accuracyTitle.textContent = `${measure} after training on rows of '${generator}', as rehearsed on public rows`;
  part.accuracy.setAttribute('aria-label', `${part.accuracyTitle.textContent}. The same numbers are in the table below it.`);
  table(part.accuracyTable, ['epsilon', measure], found.map(([at, value]) => [plain(at), value.toFixed(3)]));
}

function decades(low, high) {
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) {
    for (const lead of [1, 3]) {
      const tick = Number((lead * 10 ** power).toPrecision(1));
      if (tick >= low && tick <= high) ticks.push(tick);
    }
  }
  return ticks;
}

function niceBelow(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [5, 2, 1].map((lead) => lead * power).find((nice) => nice <= value);
}

// Elements -------------------------------------------------------------------------------------------------------------

function layout(root) {
  const part = {};
  const head = root.appendChild(make('div', 'dial-head'));
  const name = head.appendChild(make('label', 'dial-label', 'How strong a promise?'));
  const track = head.appendChild(make('div', 'dial-track'));
  part.slider = track.appendChild(make('input', 'dial-slider'));
  set(part.slider, { type: 'range', min: 0, max: 1000, step: 'any', id: 'dial-epsilon' });
  part.slider.setAttribute('aria-label', 'Epsilon: stronger promise on the left, more accurate rows on the right');
  name.setAttribute('for', 'dial-epsilon');
  const zones = track.appendChild(make('div', 'dial-zones'));
  part.zones = {};
  for (const zone of ['strong', 'usual', 'weak']) {
    part.zones[zone] = zones.appendChild(make('span', `dial-zone dial-zone-${zone}`, zone));
  }
  const boxed = head.appendChild(make('label', 'dial-boxed', 'epsilon '));
  part.box = boxed.appendChild(make('input', 'dial-box'));
  set(part.box, { type: 'text', inputmode: 'decimal', autocomplete: 'off' });
  part.box.setAttribute('aria-label', 'Epsilon, exactly');
  part.said = root.appendChild(make('p', 'dial-rough'));
  set(part.said, { role: 'alert', hidden: true });

  const halves = root.appendChild(make('div', 'dial-halves'));
  const buys = halves.appendChild(make('section', 'dial-half'));
  buys.appendChild(make('h2', '', 'What it buys'));
  for (const what of ['odds', 'even', 'best']) {
    part[what] = buys.appendChild(make('p', 'dial-line'));
    part[what].setAttribute('data-headline', what);
  }
  part.noise = buys.appendChild(make('p', 'dial-small'));
  part.again = buys.appendChild(make('p', 'dial-line'));
  part.again.setAttribute('data-headline', 'again');
  part.belief = buys.appendChild(make('p', 'dial-small'));

  const costs = halves.appendChild(make('section', 'dial-half'));
  costs.appendChild(make('h2', '', 'What it costs in accuracy'));
  part.costs = costs.appendChild(make('div', ''));
  part.ask = costs.appendChild(make('div', 'dial-ask'));
  const label = part.ask.appendChild(make('label', ''));
  part.asking = label.appendChild(make('span', ''));
  part.rows = label.appendChild(make('input', 'dial-rows'));
  set(part.rows, { type: 'text', inputmode: 'numeric', autocomplete: 'off' });
  part.look = part.ask.appendChild(make('button', 'dial-look', 'Look (owner only, recorded)'));
  part.look.type = 'button';
  part.source = part.ask.appendChild(make('p', 'dial-small'));
  part.rough = costs.appendChild(make('p', 'dial-rough'));
  set(part.rough, { role: 'status', hidden: true });

  const drawn = root.appendChild(make('div', 'dial-halves'));
  [part.curve, part.curveTitle, part.curveTable] = figure(drawn, 'Expected error by epsilon');
  [part.shape, part.shapeTitle, part.shapeTable] = figure(drawn, '');
  const choose = make('select', 'dial-column');
  choose.setAttribute('aria-label', 'Column that is drawn');
  part.column = part.shapeTitle.parentElement.appendChild(choose);
  const legend = part.shape.parentElement.insertBefore(make('p', 'dial-small'), part.shape);
  legend.append(make('span', 'dial-key-exact'), ' invented counts ', make('span', 'dial-key-bar'), ' with noise');
  part.shapeEmpty = part.shape.parentElement.insertBefore(
    make('p', 'dial-empty'), part.shape);
  [part.accuracy, part.accuracyTitle, part.accuracyTable] = figure(drawn, '');
  return part;
}

function figure(into, title) {
  const held = into.appendChild(make('figure', 'dial-half'));
  const caption = held.appendChild(make('figcaption', ''));
  const words = caption.appendChild(make('span', '', title));
  const svg = held.appendChild(document.createElementNS(SVG, 'svg'));
  set(svg, { role: 'img', class: 'dial-picture' });
  svg.setAttribute('data-picture', '');
  const more = held.appendChild(make('details', ''));
  more.appendChild(make('summary', '', 'The same numbers as a table'));
  return [svg, words, more.appendChild(make('table', 'dial-table'))];
}

function make(tag, name, words) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  if (words !== undefined) element.textContent = words;
  return element;
}

function set(element, values) {
  for (const [name, value] of Object.entries(values)) {
    if (typeof value === 'boolean') element[name] = value;
    else element.setAttribute(name, value);
  }
}

function write(element, before, strong, after = '') {
  element.replaceChildren(before, make('strong', '', strong), after);
}

function draw(svg, tag, name) {
  const shape = svg.appendChild(document.createElementNS(SVG, tag));
  shape.setAttribute('class', name);
  return shape;
}

function line(svg, x1, y1, x2, y2, name) {
  set(draw(svg, 'line', name), { x1, y1, x2, y2 });
}

function circle(svg, cx, cy, name) {
  set(draw(svg, 'circle', name), { cx, cy, r: 5 });
}

function polyline(svg, places, name) {
  draw(svg, 'polyline', name).setAttribute('points', places.map((place) => place.map((v) => v.toFixed(1)).join(',')).join(' '));
}

function text(svg, x, y, words, anchor, name = 'dial-text') {
  const element = draw(svg, 'text', name);
  set(element, { x, y, 'text-anchor': anchor });
  element.textContent = words;
}

function table(into, header, rows) {
  const head = make('tr', '');
  head.append(...header.map((name) => make('th', '', name)));
  into.replaceChildren(head, ...rows.map((cells) => {
    const row = make('tr', '');
    row.append(...cells.map((cell) => make('td', '', cell)));
    return row;
  }));
}
