import type { Schemas } from '@everloop/sdk';

type Node = Schemas['HistoryNode'];

/** Placed is a turn in the picture: rows by time, a lane for each branch. */
export interface Placed {
  node: Node;
  row: number;
  lane: number;
  parent: { row: number; lane: number } | undefined;
}

/** lay places the turns of the main agent; a branch gets a lane of its own, in the order in which branches began. */
export function lay(nodes: readonly Node[]): { placed: Placed[]; lanes: number } {
  const lanes = new Map<string, number>();
  const at = new Map<string, Placed>();
  const placed: Placed[] = [];
  for (const node of nodes) {
    if (node.loop_id !== 'root') continue;
    if (!lanes.has(node.branch_id)) lanes.set(node.branch_id, lanes.size);
    const parent = node.parent_id === null ? undefined : at.get(node.parent_id);
    const one: Placed = {
      node, row: placed.length, lane: lanes.get(node.branch_id) ?? 0, parent: parent && { row: parent.row, lane: parent.lane },
    };
    at.set(node.id, one);
    placed.push(one);
  }
  return { placed, lanes: Math.max(1, lanes.size) };
}
