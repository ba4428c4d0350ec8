import { t } from '../../lib/i18n';
import { TabbedPage } from '../../ui/tabs';
import { AccountPart } from './account';
import { Environment } from './environment';
import { Keys } from './keys';
import { PreferencesPart } from './preferences';

export default function Settings() {
  return (
    <TabbedPage
      title={t('Settings')}
      tabs={[
        { id: 'account', label: t('Account'), content: <AccountPart /> },
        { id: 'preferences', label: t('Preferences'), content: <PreferencesPart /> },
        { id: 'keys', label: t('API keys'), content: <Keys /> },
        { id: 'environment', label: t('Environment'), content: <Environment /> },
      ]}
    />
  );
}
