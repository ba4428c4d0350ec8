// The parser of Markdown needs time that grows with the square of a list, of a table and of the marks in a
// paragraph, and its tree is as deep as they are nested. These bounds keep a part to a fraction of a second.
const maxLines = 100;
const maxPipes = 400;
const maxColumns = 100;
const maxMarks = 1000;
const maxChars = 10_000;
const maxNested = 30;
const maxIndent = 80;

// A line that opens a fence. The words behind backticks have none themselves: such a line is a text.
const opening = /^ {0,3}(`{3,}(?=[^`]*$)|~{3,})/;
const delimiter = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;
const containers = /^(?:[ \t]*(?:>|(?:[-*+]|\d{1,9}[.)])(?=[ \t])))+/;

/** Fence follows which lines are in a fence. */
class Fence {
  private mark = '';

  /** has says whether the line is in a fence, or opens or closes one. */
  has(line: string): boolean {
    if (!this.mark) {
      this.mark = opening.exec(line)?.[1] ?? '';
      return this.mark !== '';
    }
    const said = line.trim();
    const closes = said.startsWith(this.mark) && /^(`+|~+)$/.test(said);
    if (closes) this.mark = '';
    return true;
  }

  get open(): boolean {
    return this.mark !== '';
  }
}

const count = (text: string, marks: RegExp): number => text.match(marks)?.length ?? 0;

const columnsOf = (line: string): number => line.trim().replace(/^\|/, '').replace(/\|$/, '').split('|').length;

// A line that ends a table without a blank line before it.
const interrupting = /^ {0,3}(>|#{1,6}(\s|$)|[-*+]\s|\d{1,9}[.)]\s|<|([-_*])[ \t]*(\3[ \t]*){2,}$|`{3}|~{3})/;

// headOf gives the heading of a table that begins with this line, and its delimiter.
function headOf(line: string, next: string): string[] {
  if (!line.includes('|') || /^( {4}|\t)/.test(line) || interrupting.test(line) || interrupting.test(next)) return [];
  return delimiter.test(next) && columnsOf(line) === columnsOf(next) ? [line, next] : [];
}

/** Part is a piece of a text: of a table, its rows, below a copy of the heading where an earlier piece has that. */
export interface Part {
  text: string;
  table?: 'begins' | 'goes on';
}

/**
 * split cuts a text at blank lines that are not within a fence, an indented part or a list, and what is long between
 * two of its lines. The steady ones of its parts, of so many lines, stay what they are whatever is written behind the text.
 */
export function split(text: string): { parts: Part[]; steady: { parts: number; lines: number } } {
  const parts: Part[] = [];
  let steady = { parts: 0, lines: 0 };
  let current: string[] = [];
  let head: string[] = []; // of the table that current is in
  let kind: Part['table'];
  let chars = 0;
  let pipes = 0;
  const fence = new Fence();
  const end = () => {
    if (current.some((line) => line.trim() !== '')) parts.push({ text: current.join('\n'), ...(kind ? { table: kind } : {}) });
    current = [];
    kind = undefined;
    chars = pipes = 0;
  };
  const add = (line: string, fenced: boolean) => {
    current.push(line);
    chars += line.length;
    if (!fenced) pipes += count(line, /\|/g);
  };
  const lines = text.split('\n');
  for (const [index, line] of lines.entries()) {
    const next = lines[index + 1] ?? '';
    const blank = line.trim() === '';
    if (head.length > 0 && (blank || interrupting.test(line))) {
      end();
      head = [];
    }
    if (head.length === 0 && !fence.open && !(current[0] && containers.test(current[0]))) {
      head = headOf(line, next);
      if (head.length > 0) {
        end();
        kind = 'begins';
      }
    }
    const full = Math.max(current.length / maxLines, chars / maxChars, pipes / maxPipes);
    if (!fence.open && current.length > 2 && !blank && full >= (/^\s/.test(line) ? 2 : 1)) {
      end();
      if (head.length > 0) {
        // A heading that is too wide is not repeated: such a table is shown as it was written.
        for (const one of columnsOf(head[0] ?? '') > maxColumns ? [] : head) add(one, false);
        kind = 'goes on';
      }
    }
    const fenced = fence.has(line);
    if (blank && !fenced && current.length > 0 && next.trim() !== '' && !/^(\s|[-*+] |\d+[.)] )/.test(next)) {
      end();
      if (index + 2 < lines.length) steady = { parts: parts.length, lines: index + 1 }; // the next line is whole
    } else if (!blank || fenced || current.length > 0) add(line, fenced);
  }
  end();
  return { parts, steady };
}

/** Weight is what a part costs; one that is `plain` would cost too much, and is shown as it was written. */
export interface Weight {
  units: number;
  plain: boolean;
}

/** weigh judges a part of split by what the parser would have to do. */
export function weigh({ text, table }: Part): Weight {
  const fence = new Fence();
  let plain = false;
  let lines = 0;
  let chars = 0;
  let pipes = 0;
  let marks = 0;
  let here = 0; // marks of this paragraph, or row
  for (const line of text.split('\n')) {
    if (fence.has(line)) {
      if (/^ {0,3}[`~]{3}/.test(line)) lines += 2; // each code has its own box
      continue;
    }
    const nested = count(containers.exec(line)?.[0] ?? '', />|[-*+]|[.)]/g);
    const indent = /^\s*/.exec(line)?.[0].length ?? 0;
    const inLine = count(line, /[*_~[\]!<`&]/g);
    const columns = count(line, /\|/g);
    here = table || line.trim() === '' || /^\s*([-*+]|1[.)]) +\S/.test(line) ? inLine : here + inLine;
    plain ||= line.length > maxChars || nested > maxNested || (nested > 0 && indent > maxIndent) || columns > maxColumns || here > maxMarks;
    lines++;
    chars += line.length;
    pipes += columns;
    marks += inLine;
  }
  plain ||= lines > 3 * maxLines || chars > 3 * maxChars || pipes > 3 * maxPipes;
  const units = plain ? text.length / 50_000 : lines / maxLines + chars / maxChars + pipes / maxPipes + marks / maxMarks;
  return { units: units + text.length / 50_000 + 0.05, plain };
}

/** within counts the parts, from the first, that together stay within a number of units; at least one. */
export function within(weights: readonly Weight[], units: number): number {
  let sum = 0;
  for (const [index, weight] of weights.entries()) {
    sum += weight.units;
    if (sum > units && index > 0) return index;
  }
  return weights.length;
}

/** portion is what is rendered at once, in units of weigh; what is beyond portionsUnasked of them waits for its reader. */
export const portion = 20;
export const portionsUnasked = 12;

/** Weighed is a part with its weight. */
export type Weighed = Part & Weight;

/** groupParts brings the parts of a table together. From one that is shown as it was written, the whole rest is. */
export function groupParts(parts: readonly Weighed[]): Weighed[][] {
  const groups: Weighed[][] = [];
  for (const part of parts) {
    const last = groups.at(-1);
    if (part.table === 'goes on' && last && (last[0]?.plain || !part.plain)) last.push(part);
    else groups.push([part]);
  }
  return groups;
}
