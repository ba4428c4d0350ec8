import { Plus, Trash2, X } from 'lucide-react';
import { useState } from 'react';
import { t } from '../../lib/i18n';
import { Button, IconButton } from '../../ui/button';
import { Area, Field, Input, Select } from '../../ui/field';
import { linesOf } from '../unattended/pieces';
import {
  type Component,
  componentNames,
  componentTypes,
  type ComponentType,
  type Document,
  replacedComponent,
  withLink,
  withoutComponent,
} from './components';
import { type Finding, set } from './graph';
import { Findings, IdInput } from './node-form';

type Link = NonNullable<Component['links']>[number];

/** ComponentForm edits a component of an architecture, and its links. */
export function ComponentForm({ document, node, findings, change, choose }: {
  document: Document; node: Component; findings: Finding[]; change: (document: Document) => void; choose: (id: string | undefined) => void;
}) {
  const put = (next: Component) => change(replacedComponent(document, node.id, next));
  const field = <Key extends keyof Component>(key: Key, value: Component[Key] | undefined | '') => put(set(node, key, value));
  const others = document.nodes.filter((one) => one.id !== node.id);
  const groups = others.filter((one) => one.type === 'group');
  const own = findings.filter((one) => one.node_id === node.id);
  const links = node.links ?? [];
  const putLink = (index: number, next: Link | undefined) =>
    put({ ...node, links: links.flatMap((link, at) => (at !== index ? [link] : next ? [next] : [])) });
  return (
    <div className="space-y-3">
      <div className="flex items-center gap-2">
        <h2 className="min-w-0 flex-1 truncate font-semibold" dir="auto">
          {node.name || node.id}
        </h2>
        <IconButton
          small
          label={t('Delete the component')}
          onClick={() => {
            change(withoutComponent(document, node.id));
            choose(undefined);
          }}
        >
          <Trash2 size={14} />
        </IconButton>
        <IconButton small label={t('Close the component')} onClick={() => choose(undefined)}>
          <X size={15} />
        </IconButton>
      </div>
      {own.length > 0 && <Findings list={own} />}
      <div className="grid grid-cols-2 gap-3">
        <Field label={t('Id')}>
          {(ids) => (
            <IdInput
              ids={ids}
              id={node.id}
              taken={others.map((one) => one.id)}
              rename={(id) => {
                put({ ...node, id });
                choose(id);
              }}
            />
          )}
        </Field>
        <Field label={t('Type')}>
          {(ids) => (
            <Select {...ids} value={node.type} onChange={(event) => put({ ...node, type: event.target.value as ComponentType })}>
              {componentTypes.map((one) => (
                <option key={one} value={one}>
                  {componentNames[one]}
                </option>
              ))}
            </Select>
          )}
        </Field>
      </div>
      <Field label={t('Name')}>
        {(ids) => (
          <Input
            {...ids}
            value={node.name ?? ''}
            placeholder={node.id}
            onChange={(event) => field('name', event.target.value)}
            dir="auto"
          />
        )}
      </Field>
      <Field label={t('Description')}>
        {(ids) => (
          <Area
            {...ids}
            rows={3}
            value={node.description ?? ''}
            onChange={(event) => field('description', event.target.value)}
            dir="auto"
          />
        )}
      </Field>
      <div className="grid grid-cols-2 gap-3">
        <Field label={t('Technology')}>
          {(ids) => (
            <Input {...ids} value={node.technology ?? ''} onChange={(event) => field('technology', event.target.value)} dir="auto" />
          )}
        </Field>
        <Field label={t('Responsible')}>
          {(ids) => <Input {...ids} value={node.owner ?? ''} onChange={(event) => field('owner', event.target.value)} dir="auto" />}
        </Field>
      </div>
      {(groups.length > 0 || node.parent_id) && (
        <Field label={t('Part of')}>
          {(ids) => (
            <Select {...ids} value={node.parent_id ?? ''} onChange={(event) => field('parent_id', event.target.value)}>
              <option value="">{t('nothing')}</option>
              {node.parent_id && !groups.some((one) => one.id === node.parent_id) && (
                <option value={node.parent_id}>{node.parent_id}</option>
              )}
              {groups.map((one) => (
                <option key={one.id} value={one.id}>
                  {one.name || one.id}
                </option>
              ))}
            </Select>
          )}
        </Field>
      )}
      <Tags value={node.tags ?? []} change={(tags) => field('tags', tags.length > 0 ? tags : undefined)} />
      <fieldset className="space-y-2">
        <legend className="text-sm font-semibold">{t('Links')}</legend>
        {links.map((link, index) => (
          <LinkForm
            key={index}
            link={link}
            label={others.find((one) => one.id === link.target_id)?.name || link.target_id}
            change={(next) => putLink(index, next)}
            remove={() => putLink(index, undefined)}
          />
        ))}
        {links.length === 0 && <p className="text-sm text-soft">{t('Not linked yet.')}</p>}
        <NextLink
          others={others.filter((one) => !links.some((link) => link.target_id === one.id))}
          add={(id) => change(withLink(document, node.id, id))}
        />
      </fieldset>
    </div>
  );
}

function LinkForm({ link, label, change, remove }: { link: Link; label: string; change: (link: Link) => void; remove: () => void }) {
  return (
    <div role="group" aria-label={t('Link to {label}', { label })} className="space-y-2 rounded-md border p-2">
      <div className="flex items-center gap-2">
        <span className="min-w-0 flex-1 truncate text-sm" dir="auto">
          {label}
        </span>
        <IconButton small label={t('Remove the link to {label}', { label })} onClick={remove}>
          <X size={14} />
        </IconButton>
      </div>
      <div className="grid grid-cols-2 gap-2">
        <Input
          aria-label={t('Label')}
          placeholder={t('Label')}
          value={link.label ?? ''}
          onChange={(event) => change(set(link, 'label', event.target.value))}
          dir="auto"
        />
        <Input
          aria-label={t('Protocol')}
          placeholder={t('Protocol')}
          value={link.protocol ?? ''}
          onChange={(event) => change(set(link, 'protocol', event.target.value))}
        />
      </div>
    </div>
  );
}

function NextLink({ others, add }: { others: Component[]; add: (id: string) => void }) {
  const [target, setTarget] = useState('');
  if (others.length === 0) return null;
  return (
    <div className="flex items-center gap-2">
      <Select aria-label={t('Component to link to')} value={target} onChange={(event) => setTarget(event.target.value)}>
        <option value="">{t('choose a component')}</option>
        {others.map((one) => <option key={one.id} value={one.id}>{one.name || one.id}</option>)}
      </Select>
      <Button small disabled={!target} onClick={() => { add(target); setTarget(''); }}><Plus size={13} aria-hidden />{t('Link')}</Button>
    </div>
  );
}

// What is written stays as it is until the field is left: a comma at the end is the beginning of another tag.
function Tags({ value, change }: { value: string[]; change: (tags: string[]) => void }) {
  const [text, setText] = useState<string>();
  const leave = () => {
    if (text !== undefined) change(linesOf(text.replaceAll(',', '\n')));
    setText(undefined);
  };
  return (
    <Field label={t('Tags')} hint={t('Separated by commas.')}>
      {(ids) => (
        <Input {...ids} value={text ?? value.join(', ')} onChange={(event) => setText(event.target.value)} onBlur={leave} dir="auto" />
      )}
    </Field>
  );
}
