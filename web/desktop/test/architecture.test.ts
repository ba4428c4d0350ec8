import { describe, expect, test } from 'vitest';
import { type Document, drawnOf, replacedComponent, withComponent, withLink, withoutComponent } from '../src/rooms/dags/components';

const document: Document = {
  nodes: [
    { id: 'web', type: 'service', name: 'Web', links: [{ target_id: 'db', label: 'reads', protocol: 'SQL' }], parent_id: 'zone' },
    { id: 'db', type: 'data_store' }, { id: 'zone', type: 'group' },
  ],
};

describe('architecture', () => {
  test('links are drawn as edges with what they say', () => {
    expect(drawnOf(document).edges).toEqual([{ id: 'web db 0', source: 'web', target: 'db', label: 'reads, SQL' }]);
    expect(drawnOf(document).nodes?.map((node) => node.id)).toEqual(['web', 'db', 'zone']);
  });
  test('a new component has a free id, and a link from the chosen one', () => {
    const made = withComponent(withComponent(document, 'service').document, 'service', 'db');
    expect(made.id).toBe('service_2');
    expect(made.document.nodes.find((node) => node.id === 'db')?.links).toEqual([{ target_id: 'service_2' }]);
  });
  test('a link is made once, and never to itself', () => {
    expect(withLink(document, 'web', 'db')).toEqual(document);
    expect(withLink(document, 'db', 'db')).toEqual(document);
  });
  test('links and parents follow a new id, and go with what they name', () => {
    const renamed = replacedComponent(
      replacedComponent(document, 'db', { id: 'store', type: 'data_store' }), 'zone', { id: 'area', type: 'group' },
    );
    expect(renamed.nodes[0]).toMatchObject({ parent_id: 'area', links: [{ target_id: 'store', label: 'reads' }] });
    const removed = withoutComponent(withoutComponent(document, 'db'), 'zone');
    expect(removed.nodes).toEqual([{ id: 'web', type: 'service', name: 'Web', links: [] }]);
  });
});
