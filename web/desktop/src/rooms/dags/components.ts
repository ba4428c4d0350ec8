import type { Schemas } from '@everloop/sdk';
import { t } from '../../lib/i18n';
import type { Drawn } from './canvas';
import { freeId } from './graph';

export type Component = Schemas['Component'];
export type Document = Schemas['Document'];
export type ComponentType = Component['type'];

/** componentTypes are the components that can be added. */
export const componentTypes: ComponentType[] = ['service', 'agent', 'data_store', 'queue', 'gateway', 'user', 'external', 'group'];

export const componentNames: Record<ComponentType, string> = {
  service: t('Service'),
  agent: t('Agent'),
  data_store: t('Data store'),
  queue: t('Queue|component'),
  gateway: t('Gateway'),
  user: t('User'),
  external: t('External system'),
  group: t('Group'),
};

/** drawnOf is the drawing of an architecture: its components, and their links as edges. */
export function drawnOf({ nodes }: Document): Drawn {
  return {
    nodes: nodes.map(({ id, name, type, position }) => ({ id, type, ...(name ? { name } : {}), ...(position ? { position } : {}) })),
    edges: nodes.flatMap((node) => (node.links ?? []).map((link, index) => {
      const label = [link.label, link.protocol].filter(Boolean).join(', ');
      return { id: `${node.id} ${link.target_id} ${index}`, source: node.id, target: link.target_id, ...(label ? { label } : {}) };
    })),
  };
}

/** withComponent gives the document with another component; `from` is linked to it. */
export function withComponent(document: Document, type: ComponentType, from?: string): { document: Document; id: string } {
  const id = freeId(type, document.nodes);
  const linked = from === undefined ? document : withLink(document, from, id);
  return { id, document: { ...linked, nodes: [...linked.nodes, { id, type }] } };
}

/** withLink gives the document with a link; one that is there already is not made twice. */
export function withLink(document: Document, from: string, to: string): Document {
  if (from === to) return document;
  return {
    ...document, nodes: document.nodes.map((node) => (node.id !== from || node.links?.some((link) => link.target_id === to) ? node
      : { ...node, links: [...node.links ?? [], { target_id: to }] })),
  };
}

/** replacedComponent gives the document with a changed component; links and parents follow when its id is another. */
export function replacedComponent(document: Document, id: string, next: Component): Document {
  const follow = (end: string): string => (end === id ? next.id : end);
  return {
    ...document, nodes: document.nodes.map((node) => (node.id === id ? next : node)).map((node) => (next.id === id ? node : {
      ...node, ...(node.parent_id === undefined ? {} : { parent_id: follow(node.parent_id) }),
      ...(node.links ? { links: node.links.map((link) => ({ ...link, target_id: follow(link.target_id) })) } : {}),
    })),
  };
}

/** withoutComponent gives the document without a component, and without what names it. */
export function withoutComponent(document: Document, id: string): Document {
  return {
    ...document, nodes: document.nodes.filter((node) => node.id !== id).map(({ parent_id, ...node }) => ({
      ...node, ...(parent_id === undefined || parent_id === id ? {} : { parent_id }),
      ...(node.links ? { links: node.links.filter((link) => link.target_id !== id) } : {}),
    })),
  };
}
