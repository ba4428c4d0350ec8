import type { Schemas } from '@everloop/sdk';
import { t } from '../../lib/i18n';

export type Issue = Schemas['Issue'];
export type Status = Issue['status'];

/** statuses are the columns of a board, in their order. */
export const statuses: Status[] = ['backlog', 'todo', 'in_progress', 'in_review', 'blocked', 'done', 'cancelled'];

export const statusNames: Record<Status, string> = {
  backlog: t('Backlog'),
  todo: t('To do'),
  in_progress: t('In progress'),
  in_review: t('In review'),
  blocked: t('Blocked'),
  done: t('Done'),
  cancelled: t('Cancelled'),
};

export const priorities: Issue['priority'][] = ['urgent', 'high', 'medium', 'low', 'none'];

/** Place is where an issue is, or is put: a column, and how many are before it there. */
export interface Place {
  status: Status;
  index: number;
}

/** Columns are the issues of a board by their status. */
export type Columns = Record<Status, Issue[]>;

/** placeOf finds an issue. */
export function placeOf(columns: Columns, id: string): Place | undefined {
  for (const status of statuses) {
    const index = columns[status].findIndex((one) => one.id === id);
    if (index >= 0) return { status, index };
  }
  return undefined;
}

/** moved gives the columns with an issue at another place; `index` counts without the issue itself. */
export function moved(columns: Columns, issue: Issue, to: Place): Columns {
  const from = placeOf(columns, issue.id);
  const without = from ? { ...columns, [from.status]: columns[from.status].filter((one) => one.id !== issue.id) } : columns;
  const column = [...without[to.status]];
  column.splice(to.index, 0, { ...issue, status: to.status, position: positionAt(column, to.index) });
  return { ...without, [to.status]: column };
}

/** positionAt is a position between the neighbours of a place in a column that does not have the issue. */
export function positionAt(column: readonly Issue[], index: number): number {
  const before = column[index - 1]?.position;
  const after = column[index]?.position;
  if (before === undefined && after === undefined) return 0;
  if (before === undefined) return (after ?? 0) - 1;
  if (after === undefined) return before + 1;
  return (before + after) / 2;
}

/** stepped is the place one step from another, for the arrow keys; at an edge it stays. */
export function stepped(columns: Columns, id: string, at: Place, key: 'ArrowUp' | 'ArrowDown' | 'ArrowLeft' | 'ArrowRight'): Place {
  const size = (status: Status): number => columns[status].filter((one) => one.id !== id).length;
  if (key === 'ArrowUp') return { ...at, index: Math.max(0, at.index - 1) };
  if (key === 'ArrowDown') return { ...at, index: Math.min(size(at.status), at.index + 1) };
  const status = statuses[statuses.indexOf(at.status) + (key === 'ArrowLeft' ? -1 : 1)];
  return status ? { status, index: Math.min(at.index, size(status)) } : at;
}

/** columnsOf sorts the groups of the service into columns. */
export function columnsOf(groups: readonly { key: { id: string | null }; items: Issue[] }[]): Columns {
  const columns = Object.fromEntries(statuses.map((status) => [status, []])) as unknown as Columns;
  for (const group of groups) {
    const status = statuses.find((one) => one === group.key.id);
    if (status) columns[status] = group.items;
  }
  return columns;
}
