import { visible } from '../lib/visible';
import { split, type Weighed, weigh } from './blocks';
import { boundedLines, boundedWhole, maxParagraph } from './code';

/**
 * Growing keeps the parts of a text that mostly grows at its end, as an answer that streams: of each further text only
 * what is not steady yet is split and weighed. Parts that stay are the same objects.
 */
export class Growing {
  private done = ''; // the text of the steady parts
  private steady: Weighed[] = [];

  /** parts gives the parts of a text, as it is shown. */
  parts(text: string): Weighed[] {
    const whole = boundedWhole(text);
    if (!whole.startsWith(this.done)) {
      this.done = '';
      this.steady = [];
    }
    const rest = whole.slice(this.done.length);
    const found = split(visible(boundedLines(rest, maxParagraph)));
    const parts = found.parts.map((part) => ({ ...part, ...weigh(part) }));
    const all = [...this.steady, ...parts];
    this.steady = all.slice(0, this.steady.length + found.steady.parts);
    this.done += linesOf(rest, found.steady.lines);
    return all;
  }
}

// linesOf gives the first lines of a text, each with its end.
function linesOf(text: string, count: number): string {
  let end = 0;
  for (let i = 0; i < count; i++) end = text.indexOf('\n', end) + 1;
  return text.slice(0, end);
}
