import { useState } from 'react';
import { t } from '../../lib/i18n';
import { Button } from '../../ui/button';
import { Dialog } from '../../ui/dialog';
import { Area, Field } from '../../ui/field';
import { objectOf } from '../unattended/pieces';

/** JsonDialog edits a whole document as a text; `lists` are the fields that have to be lists. */
export function JsonDialog<Content extends object>({ title, document, lists, readOnly, change, close }: {
  title: string; document: Content; lists: string[]; readOnly: boolean; change: (document: Content) => void; close: () => void;
}) {
  const [text, setText] = useState(() => JSON.stringify(document, null, 2));
  const read = objectOf(text);
  const fields = 'value' in read ? read.value ?? {} : {};
  const shape = lists.every((name) => Array.isArray(fields[name] ?? []))
    ? undefined
    : t('{names}: these are lists.', { names: lists.join(', ') });
  const error = 'error' in read ? read.error : shape;
  const take = () => {
    if (error !== undefined) return;
    change(fields as Content);
    close();
  };
  return (
    <Dialog open onOpenChange={close} wide title={title}>
      <form onSubmit={(event) => { event.preventDefault(); take(); }} className="space-y-3">
        <Field label={t('Document')} error={error}>
          {(ids) => (
            <Area
              {...ids} rows={22} readOnly={readOnly} className="font-mono text-xs" spellCheck={false} value={text}
              onChange={(event) => setText(event.target.value)}
            />
          )}
        </Field>
        <div className="flex justify-end gap-2">
          <Button onClick={close}>{t('Cancel')}</Button>
          {!readOnly && <Button type="submit" look="primary" disabled={error !== undefined}>{t('Take over')}</Button>}
        </div>
      </form>
    </Dialog>
  );
}
